// SPDX-License-Identifier: Apache-2.0
#include "partitioner/plan/layer_names.h"

#include <optional>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "partitioner/profile/profile.h"

namespace hetpipe {

std::string layer_range(const Profile& profile, int first, int end) {
  const auto& from = profile.layers[static_cast<std::size_t>(first)].name;
  const auto& to = profile.layers[static_cast<std::size_t>(end - 1)].name;
  return end - first == 1 ? from : from + ".." + to;
}

int layer_named(const Profile& profile, const std::string& name, EndOfModule which) {
  std::vector<std::string> known;
  std::optional<int> inside;
  for (int l = 0; l < static_cast<int>(profile.layers.size()); ++l) {
    const std::string& layer = profile.layers[static_cast<std::size_t>(l)].name;
    if (layer == name) return l;
    if (layer.starts_with(name + ".") && (!inside || which == EndOfModule::last)) inside = l;
    known.push_back(layer);
  }
  if (inside) return *inside;
  const std::string near = nearest(name, known);
  throw UserError("", "'" + name + "' is no layer or module of '" + profile.model + "'" +
                          (near.empty() ? "" : " (did you mean '" + near + "'?)") +
                          ". Its layers are in the profile, from '" + known.front() + "' to '" +
                          known.back() + "'.");
}

}  // namespace hetpipe
