// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/file.h"
#include "base/text.h"
#include "partitioner/cluster/device_type.h"
#include "partitioner/file_kind.h"
#include "partitioner/profile/graph_txt.h"
#include "partitioner/profile/profile.h"
#include "partitioner/toml_file.h"

// Reading the profile file (docs/files.md).
namespace hetpipe {
namespace {

using Need = TomlReader::Need;

constexpr Range kBytes{0, 1e13};  // ten terabytes, as for all layers together
constexpr Range kFlops{0, 1e17};
constexpr Range kSeconds{0, 1e5};
constexpr Range kBatch{1, 1e7};
constexpr Range kSides{1, 1e9};
constexpr Range kOperations{1, 1e6};

class ProfileFile {
 public:
  ProfileFile(const TomlValue& root, const std::string& file) : root_(root), file_(file) {}

  Profile read() {
    TomlReader top(root_, "the file", file_, problems_);
    top.format_is_1();
    profile_.model = top.string("model", Need::required).value_or("");
    for (const TomlValue* layer : top.tables("layer", Need::required)) read_layer(*layer);
    check_everything_is_read();
    std::vector<std::int64_t> parameters;
    for (const ProfileLayer& layer : profile_.layers) parameters.push_back(layer.parameter_bytes);
    check_total(root_.line, "parameter_bytes of all layers", parameters);
    // Of all measurements that do not say it themselves.
    update_is_step_ = top.boolean("update_is_step");
    const bool measured = top.has("measurement");
    const Need need = measured ? Need::required : Need::optional;  // given, it is not empty
    for (const TomlValue* measurement : top.tables("measurement", need)) {
      read_measurement(*measurement);
    }
    if (!measured) check_estimates_are_possible();
    top.done();
    problems_.throw_if_any();
    return std::move(profile_);
  }

 private:
  void read_layer(const TomlValue& value) {
    const int index = static_cast<int>(profile_.layers.size());
    TomlReader reader(value, "[[layer]] " + std::to_string(index), file_, problems_);
    ProfileLayer layer;
    layer.name = reader.string("name", Need::required).value_or("");
    if (reader.has("inputs")) {
      const auto inputs = reader.integers("inputs", {-1e9, 1e9});
      for (const std::int64_t input : inputs.value_or(std::vector<std::int64_t>{})) {
        if (input < 0 || input >= index) {
          const std::string why =
              input == index ? "a layer cannot read its own output: that is a cycle"
              : input > index
                  ? "it comes later: a cycle, or layers that are not in topological order"
                  : "layers are counted from 0";
          const std::string remedy = index == 0
                                         ? "The first layer reads none: write inputs = []."
                                         : format("Name earlier layers, 0 ... %d here.", index - 1);
          reader.problem(reader.line_of("inputs"),
                         format("layer '%s': input %lld (%s). %s", layer.name.c_str(),
                                static_cast<long long>(input), why.c_str(), remedy.c_str()));
        } else if (std::find(layer.inputs.begin(), layer.inputs.end(), input) !=
                   layer.inputs.end()) {
          reader.problem(
              reader.line_of("inputs"),
              format("layer '%s': input %lld is given twice (each producer is named once). "
                     "Remove one.",
                     layer.name.c_str(), static_cast<long long>(input)));
        } else {
          layer.inputs.push_back(static_cast<int>(input));
        }
      }
    } else {
      reader.integers("inputs", {0, 0});  // a key that the reader knows
      if (index > 0) layer.inputs = {index - 1};
    }
    layer.parameter_bytes = reader.integer("parameter_bytes", kBytes).value_or(0);
    layer.forward_flops = reader.real("forward_flops", kFlops).value_or(0);
    layer.backward_flops = reader.real("backward_flops", kFlops).value_or(0);
    layer.input_bytes = reader.real("input_bytes", kBytes).value_or(0);
    layer.output_bytes = reader.real("output_bytes", kBytes).value_or(0);
    layer.stash_bytes = reader.real("stash_bytes", kBytes).value_or(0);
    layer.operations = static_cast<int>(reader.integer("operations", kOperations).value_or(1));
    layer.group_all_reduce_bytes = reader.real("group_all_reduce_bytes", kBytes).value_or(0);
    layer.shares = reader.string("shares").value_or("");
    layer.output = reader.boolean("output").value_or(false);
    layer.kept_for_readers = reader.boolean("kept_for_readers").value_or(false);
    layer.gradients_apart = reader.boolean("gradients_apart").value_or(false);
    read_matrices(reader, layer);
    layer_lines_.push_back(value.line);
    reader.done();
    const auto named = [&](const std::string& name) {
      return std::any_of(profile_.layers.begin(), profile_.layers.end(),
                         [&](const ProfileLayer& other) { return other.name == name; });
    };
    if (named(layer.name)) {
      reader.problem(reader.line_of("name"), "layer '" + layer.name +
                                                 "' is named twice (names identify layers). "
                                                 "Rename one.");
    }
    if (!layer.shares.empty() && !named(layer.shares)) {
      reader.problem(reader.line_of("shares"),
                     "layer '" + layer.name + "' shares the parameters of '" + layer.shares +
                         "' (no earlier layer has that name). Name the layer that owns them.");
    }
    profile_.layers.push_back(std::move(layer));
  }

  void read_matrices(TomlReader& reader, ProfileLayer& layer) {
    const auto sides = reader.integers("matrices", kSides).value_or(std::vector<std::int64_t>{});
    if (sides.size() % 2 != 0) {
      reader.problem(reader.line_of("matrices"),
                     format("layer '%s': matrices has %zu numbers (they are rows and columns, in "
                            "turns). Give both of each matrix.",
                            layer.name.c_str(), sides.size()));
      return;
    }
    for (std::size_t i = 0; i < sides.size(); i += 2) {
      layer.matrices.push_back({sides[i], sides[i + 1]});
    }
  }

  // A model that was never measured needs what a roofline is made of.
  void check_estimates_are_possible() {
    const bool flops =
        std::any_of(profile_.layers.begin(), profile_.layers.end(),
                    [](const ProfileLayer& layer) { return layer.forward_flops > 0; });
    if (flops || profile_.layers.empty()) return;
    problems_.add(file_ + ":" + std::to_string(root_.line),
                  "measurement is missing, and no layer has forward_flops (times are measured or "
                  "estimated from flops). Add a [[measurement]], or forward_flops and output_bytes "
                  "to the layers.");
  }

  // What nobody reads does nothing: most likely an input was forgotten or misnamed. Only where the
  // inputs themselves are right.
  void check_everything_is_read() {
    if (!problems_.empty()) return;
    std::vector<bool> read(profile_.layers.size(), false);
    for (const ProfileLayer& layer : profile_.layers) {
      for (const int input : layer.inputs) read[static_cast<std::size_t>(input)] = true;
    }
    for (std::size_t l = 0; l + 1 < profile_.layers.size(); ++l) {
      if (read[l] || profile_.layers[l].output) continue;
      problems_.add(
          file_ + ":" + std::to_string(layer_lines_[l]),
          "layer '" + profile_.layers[l].name +
              "': no later layer reads its output (the graph is disconnected here). Name it "
              "in a later layer's inputs, or write output = true if it is a result of "
              "the network.");
    }
  }

  void read_measurement(const TomlValue& value) {
    TomlReader reader(value, "[[measurement]]", file_, problems_);
    Measurement m;
    m.device = reader.string("device", Need::required).value_or("");
    m.batch = static_cast<int>(reader.integer("batch", kBatch, Need::required).value_or(0));
    m.forward = sized(reader, "forward", reader.reals("forward", kSeconds, Need::required));
    m.backward = sized(reader, "backward", reader.reals("backward", kSeconds, Need::required));
    m.update = sized(reader, "update", reader.reals("update", kSeconds));
    m.weight_gradient = sized(reader, "weight_gradient", reader.reals("weight_gradient", kSeconds));
    m.damped_update = sized(reader, "damped_update", reader.reals("damped_update", kSeconds));
    m.orthogonal_update =
        sized(reader, "orthogonal_update", reader.reals("orthogonal_update", kSeconds));
    check_part_of_backward(reader, m);
    const auto nothing = [](double seconds) { return seconds == 0; };
    if (!m.forward.empty() && std::all_of(m.forward.begin(), m.forward.end(), nothing) &&
        std::all_of(m.backward.begin(), m.backward.end(), nothing)) {
      reader.problem(reader.line_of("forward"),
                     "[[measurement]]: no layer takes any time (a network without cost cannot "
                     "be partitioned). Measure it again.");
    }
    m.output_bytes =
        sized(reader, "output_bytes", reader.integers("output_bytes", kBytes, Need::required));
    m.stash_bytes =
        sized(reader, "stash_bytes", reader.integers("stash_bytes", kBytes, Need::required));
    m.scratch_bytes = sized(reader, "scratch_bytes", reader.integers("scratch_bytes", kBytes));
    m.update_is_step = reader.boolean("update_is_step");
    if (!m.update_is_step && !m.update.empty()) m.update_is_step = update_is_step_;
    if (m.update_is_step && m.update.empty()) {
      reader.problem(reader.line_of("update_is_step"),
                     "[[measurement]]: update_is_step without update (it says what its numbers "
                     "are). Add update, or leave it out.");
    }
    check_step(reader, m);
    m.estimate = reader.string("estimate").value_or("");
    read_precision(reader, m);
    reader.done();
    check_total(reader.line_of("output_bytes"), "output_bytes", m.output_bytes);
    check_total(reader.line_of("stash_bytes"), "stash_bytes", m.stash_bytes);
    for (const Measurement& other : profile_.measurements) {
      if (same_device_type(other.device, m.device) && other.batch == m.batch && m.batch > 0) {
        reader.problem(value.line, format("device '%s' at batch %d is measured twice (only one "
                                          "can be used). Remove one.",
                                          m.device.c_str(), m.batch));
      } else if (same_device_type(other.device, m.device) && other.precision != m.precision) {
        const auto said = [](const Measurement& of) {
          return of.precision ? to_string(*of.precision) : std::string("a precision not stated");
        };
        reader.problem(value.line, format("device '%s' is measured in %s and in %s (a profile has "
                                          "one precision for each device). Keep one of them.",
                                          m.device.c_str(), said(other).c_str(), said(m).c_str()));
      }
    }
    profile_.measurements.push_back(std::move(m));
  }

  // One step has one time.
  void check_step(TomlReader& reader, const Measurement& m) {
    if (!m.update_is_step.value_or(false) || m.update.empty()) return;
    const auto [least, most] = std::minmax_element(m.update.begin(), m.update.end());
    if (*least == *most) return;
    reader.problem(reader.line_of("update"),
                   format("[[measurement]]: update has %g and %g, but update_is_step = true (then "
                          "each of its numbers is the time of the whole step). Give every layer "
                          "the step's time, or leave update_is_step out.",
                          *least, *most));
  }

  void read_precision(TomlReader& reader, Measurement& m) {
    const auto name = reader.string("precision");
    if (!name) return;
    try {
      m.precision = precision_named(*name);
    } catch (const UserError& error) {
      reader.problem(reader.line_of("precision"), error.problems().front().text);
    }
  }

  void check_part_of_backward(TomlReader& reader, const Measurement& m) {
    const std::size_t layers = std::min(m.weight_gradient.size(), m.backward.size());
    for (std::size_t l = 0; l < layers; ++l) {
      if (m.weight_gradient[l] <= m.backward[l]) continue;
      reader.problem(reader.line_of("weight_gradient"),
                     format("layer %zu: weight_gradient = %g is more than backward = %g (it is "
                            "a part of it). Correct one.",
                            l, m.weight_gradient[l], m.backward[l]));
    }
  }

  void check_total(int line, const char* what, const std::vector<std::int64_t>& bytes) {
    double sum = 0;
    for (const std::int64_t value : bytes) sum += static_cast<double>(value);
    if (sum <= kBytes.most) return;
    problems_.add(file_ + ":" + std::to_string(line),
                  format("%s add up to %s (more than %s, which no device holds). Correct them.",
                         what, format_bytes(sum).c_str(), format_bytes(kBytes.most).c_str()));
  }

  template <class T>
  std::vector<T> sized(const TomlReader& reader, const std::string& key,
                       std::optional<std::vector<T>> values) {
    if (!values) return {};
    if (values->size() != profile_.layers.size()) {
      problems_.add(
          reader.where(reader.line_of(key)),
          format("[[measurement]]: %s has %zu values (the model has %zu layers). Give one "
                 "per layer.",
                 key.c_str(), values->size(), profile_.layers.size()));
    }
    return std::move(*values);
  }

  const TomlValue& root_;
  const std::string& file_;
  Problems problems_;
  Profile profile_;
  std::vector<int> layer_lines_;
  std::optional<bool> update_is_step_;
};

}  // namespace

Profile parse_profile(std::string_view text, const std::string& file) {
  const TomlValue root = parse_toml(text, file);
  check_file_kind(root, file, FileKind::profile);
  return ProfileFile(root, file).read();
}

LoadedProfile read_profile(const std::filesystem::path& path, const ProfileOrigin& origin) {
  const std::string text = read_file(path);
  if (looks_like_graph_txt(text)) {
    GraphTxt graph = parse_graph_txt(text, path.string(), origin);
    return {std::move(graph.profile), std::move(graph.note)};
  }
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) {
    throw UserError(path.string(),
                    "the file is empty (a profile has layers). Give a profile that hetpipe profile "
                    "wrote, or PipeDream's graph.txt.");
  }
  Profile profile = parse_profile(text, path.string());
  if (origin.device || origin.batch) {
    throw UserError(path.string(),
                    "--profile-device and --profile-batch are for PipeDream's graph.txt (this file "
                    "names its devices and batches itself). Leave them out.");
  }
  return {std::move(profile), ""};
}

Profile load_profile(const std::filesystem::path& path, const ProfileOrigin& origin) {
  return read_profile(path, origin).profile;
}

}  // namespace hetpipe
