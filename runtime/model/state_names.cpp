// SPDX-License-Identifier: Apache-2.0
#include "runtime/model/state_names.h"

#include <map>

namespace hetpipe {
namespace {

std::string state_name(const std::string& name, const std::map<std::string, std::string>& words) {
  const std::size_t slash = name.rfind('/');
  const std::string last = slash == std::string::npos ? name : name.substr(slash + 1);
  const auto word = words.find(last);
  std::string dotted = name.substr(0, name.size() - last.size());
  for (char& c : dotted) c = c == '/' ? '.' : c;
  return dotted + (word == words.end() ? last : word->second);
}

}  // namespace

std::string order_of(const LayerSpec& owner, const Shape& shape) {
  if (std::holds_alternative<Embedding>(owner)) return "vocabulary,features";
  if (std::holds_alternative<PositionEmbedding>(owner)) return "position,features";
  const auto* linear = std::get_if<Linear>(&owner);
  if (linear != nullptr && linear->transposed && shape.rank() == 2) return "out,in";
  return shape.rank() == 4 ? "OIHW" : shape.rank() == 2 ? kInOut : "";
}

std::string state_name_of_parameter(const std::string& name) {
  static const std::map<std::string, std::string> kWords{{"scale", "weight"}, {"shift", "bias"}};
  return state_name(name, kWords);
}

std::string state_name_of_statistic(const std::string& name) {
  static const std::map<std::string, std::string> kWords{{"mean", "running_mean"},
                                                         {"variance", kRunningVariance}};
  return state_name(name, kWords);
}

}  // namespace hetpipe
