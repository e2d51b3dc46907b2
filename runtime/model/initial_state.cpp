// SPDX-License-Identifier: Apache-2.0
#include "runtime/model/initial_state.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <span>

#include "base/error.h"
#include "base/safetensors.h"
#include "base/text.h"
#include "runtime/model/parameters.h"
#include "runtime/model/state_names.h"
#include "runtime/model/transformers_names.h"

namespace hetpipe {
namespace {

using Taken = StateNaming::Place;

class FileValues final : public StateValues {
 public:
  FileValues(std::shared_ptr<const Safetensors> file, std::map<std::string, Taken> taken,
             std::string remark)
      : file_(std::move(file)), taken_(std::move(taken)), remark_(std::move(remark)) {}

  std::span<const float> of(const std::string&) const override { return {}; }

  std::span<const float> of_entry(const std::string& name) const override {
    const auto found = taken_.find(name);
    if (found == taken_.end()) return {};
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto [place, fresh] = values_.try_emplace(name);
    if (fresh) place->second = read(found->second);
    return place->second;
  }

  std::string remark() const override { return remark_; }

 private:
  std::vector<float> read(const Taken& taken) const {
    std::vector<float> values = file_->floats(taken.name);
    if (!taken.transposed) return values;
    const auto rows = static_cast<std::size_t>(file_->at(taken.name).shape[0]);
    const std::size_t columns = values.size() / std::max<std::size_t>(rows, 1);
    std::vector<float> turned(values.size());
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t c = 0; c < columns; ++c) turned[c * rows + r] = values[r * columns + c];
    }
    return turned;
  }

  std::shared_ptr<const Safetensors> file_;
  std::map<std::string, Taken> taken_;  // by entry
  std::string remark_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::vector<float>> values_;
};

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::vector<std::string> sides;
  for (const std::int64_t side : shape) sides.push_back(std::to_string(side));
  return "(" + join(sides, ", ") + ")";
}

// As `hetpipe checkpoint export` writes them. A use of another layer's parameter may have a name of
// its own there, as PyTorch repeats tied weights; batch norms count, as training does by itself.
StateNaming as_exported(const Model& model) {
  std::set<std::string> uses;
  for (const ModelLayer& layer : model.layers()) {
    for (const SharedParameter& shared : layer.shares) {
      uses.insert(state_name_of_parameter(layer.name + "/" + shared.name));
    }
  }
  return {.place =
              [](const std::string& parameter, const std::string& order) {
                return Taken{state_name_of_parameter(parameter), order == kInOut};
              },
          .passes_over =
              [uses](const std::string& name) {
                return uses.contains(name) || name.ends_with("num_batches_tracked");
              }};
}

}  // namespace

bool differs_in_classes(const std::vector<std::int64_t>& file,
                        const std::vector<std::int64_t>& model, int classes) {
  if (file.size() != model.size() || file == model) return false;
  for (std::size_t d = 0; d < file.size(); ++d) {
    if (file[d] != model[d] && model[d] != classes) return false;
  }
  return true;
}

std::string not_taken(const std::string& file, const std::vector<std::string>& tensors) {
  if (tensors.empty()) return "";
  return "not taken from " + file + ", which has " + (tensors.size() == 1 ? "it" : "them") +
         " for other classes: " + join(tensors, ", ");
}

std::shared_ptr<const StateValues> initial_state(const Model& model, const std::string& file,
                                                 bool whole) {
  const auto state = std::make_shared<const Safetensors>(file);
  Problems problems;
  std::map<std::string, Taken> taken;
  const StateNaming naming = gpt2_of_transformers(model, *state).value_or(as_exported(model));
  std::set<std::string> known;
  std::vector<std::string> drawn;
  const auto take = [&](const ParameterEntry& entry, const Taken& place) {
    const std::string& name = place.name;
    known.insert(name);
    const TensorInFile* const tensor = state->find(name);
    if (tensor == nullptr) {
      if (!whole) return;
      problems.add(file, "lacks '" + name + "' (of model '" + model.name() +
                             "'). Give a whole state_dict, or --init-partial.");
      return;
    }
    std::vector<std::int64_t> shape = entry.file_shape;
    if (place.transposed) std::swap(shape[0], shape[1]);
    if (tensor->shape == shape) {
      taken[entry.name] = place;
    } else if (differs_in_classes(tensor->shape, shape, model.classes())) {
      drawn.push_back(name);
    } else {
      problems.add(file, "holds '" + name + "' of shape " + shape_text(tensor->shape) +
                             " (model '" + model.name() + "' has " + shape_text(shape) +
                             "). Give weights of this model.");
    }
  };
  const auto parameters = ParameterLayout::parameters(model, 0, model.layer_count());
  const auto statistics = ParameterLayout::statistics(model, 0, model.layer_count());
  for (const ParameterEntry& entry : parameters.entries()) {
    if (!entry.is_own()) continue;
    const std::string order = order_of(model.layer(entry.layer).spec, entry.shape.shape);
    take(entry, naming.place(entry.name, order));
  }
  for (const ParameterEntry& entry : statistics.entries()) {
    take(entry, {state_name_of_statistic(entry.name)});
  }
  for (const auto& [name, tensor] : state->tensors()) {
    if (!whole || known.contains(name) || naming.passes_over(name)) continue;
    problems.add(file, "holds '" + name + "', which model '" + model.name() +
                           "' does not have. Give its own state_dict, or --init-partial.");
  }
  problems.throw_if_any();
  if (taken.empty()) {
    throw UserError(file, "holds no tensor of model '" + model.name() +
                              "'. Give weights of this model, by the names that hetpipe "
                              "checkpoint export writes.");
  }
  return std::make_shared<FileValues>(state, std::move(taken), not_taken(file, drawn));
}

}  // namespace hetpipe
