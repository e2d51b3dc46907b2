// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"
#include "base/text.h"
#include "partitioner/profile/profile.h"
#include "partitioner/toml_file.h"

// Writing the profile file (docs/files.md).
namespace hetpipe {
namespace {

template <class T, class Print>
std::string numbers(const std::vector<T>& values, Print print) {
  std::vector<std::string> texts;
  for (const T value : values) texts.push_back(print(value));
  return "[" + join(texts, ", ") + "]";
}

std::string integer_text(std::int64_t value) { return std::to_string(value); }

}  // namespace

std::string to_toml(const Profile& profile) {
  std::string text = "format = 1\nmodel = " + toml_string(profile.model) + "\n";
  for (std::size_t l = 0; l < profile.layers.size(); ++l) {
    const ProfileLayer& layer = profile.layers[l];
    text += "\n[[layer]]  # " + std::to_string(l) + "\nname = " + toml_string(layer.name) + "\n";
    const std::vector<int> before =
        l == 0 ? std::vector<int>{} : std::vector<int>{static_cast<int>(l) - 1};
    if (layer.inputs != before) {
      text += "inputs = " + numbers(layer.inputs, integer_text) + "\n";
    }
    text += "parameter_bytes = " + std::to_string(layer.parameter_bytes) + "\n";
    if (layer.forward_flops > 0) text += "forward_flops = " + toml_real(layer.forward_flops) + "\n";
    if (layer.backward_flops > 0) {
      text += "backward_flops = " + toml_real(layer.backward_flops) + "\n";
    }
    if (layer.input_bytes > 0) text += "input_bytes = " + toml_real(layer.input_bytes) + "\n";
    if (layer.output_bytes > 0) text += "output_bytes = " + toml_real(layer.output_bytes) + "\n";
    if (layer.stash_bytes > 0) text += "stash_bytes = " + toml_real(layer.stash_bytes) + "\n";
    if (layer.operations != 1) {
      text += "operations = " + std::to_string(layer.operations) + "\n";
    }
    if (layer.group_all_reduce_bytes > 0) {
      text += "group_all_reduce_bytes = " + toml_real(layer.group_all_reduce_bytes) + "\n";
    }
    if (layer.output) text += "output = true\n";
    if (layer.kept_for_readers) text += "kept_for_readers = true\n";
    if (layer.gradients_apart) text += "gradients_apart = true\n";
    if (!layer.matrices.empty()) {
      std::vector<std::int64_t> sides;
      for (const MatrixSides& matrix : layer.matrices) {
        sides.insert(sides.end(), {matrix.rows, matrix.columns});
      }
      text += "matrices = " + numbers(sides, integer_text) + "\n";
    }
    if (!layer.shares.empty()) text += "shares = " + toml_string(layer.shares) + "\n";
  }
  for (const Measurement& m : profile.measurements) {
    text += "\n[[measurement]]\ndevice = " + toml_string(m.device) + "\n";
    if (!m.estimate.empty()) text += "estimate = " + toml_string(m.estimate) + "\n";
    if (m.precision) text += "precision = " + toml_string(to_string(*m.precision)) + "\n";
    text += "batch = " + std::to_string(m.batch) + "  # samples per call\n";
    text += "forward = " + numbers(m.forward, toml_real) + "  # s per layer\n";
    text += "backward = " + numbers(m.backward, toml_real) + "\n";
    if (!m.update.empty()) text += "update = " + numbers(m.update, toml_real) + "\n";
    if (m.update_is_step) {
      text += std::string("update_is_step = ") + (*m.update_is_step ? "true" : "false") + "\n";
    }
    if (!m.weight_gradient.empty()) {
      text += "weight_gradient = " + numbers(m.weight_gradient, toml_real) + "\n";
    }
    if (!m.damped_update.empty()) {
      text += "damped_update = " + numbers(m.damped_update, toml_real) + "\n";
    }
    if (!m.orthogonal_update.empty()) {
      text += "orthogonal_update = " + numbers(m.orthogonal_update, toml_real) + "\n";
    }
    text += "output_bytes = " + numbers(m.output_bytes, integer_text) + "\n";
    text += "stash_bytes = " + numbers(m.stash_bytes, integer_text) + "\n";
    if (!m.scratch_bytes.empty()) {
      text += "scratch_bytes = " + numbers(m.scratch_bytes, integer_text) + "\n";
    }
  }
  return text;
}

Json to_json(const Profile& profile) { return to_toml(profile); }

void from_json(const Json& json, Profile& profile) {
  profile = parse_profile(json.get<std::string>(), "the profile of another rank");
}

}  // namespace hetpipe
