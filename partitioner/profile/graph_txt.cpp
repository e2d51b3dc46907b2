// SPDX-License-Identifier: Apache-2.0
#include "partitioner/profile/graph_txt.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "partitioner/profile/graph_batch.h"
#include "partitioner/profile/graph_lines.h"
#include "partitioner/profile/graph_order.h"
#include "partitioner/trimmed.h"

namespace hetpipe {
namespace {

void check_totals(const GraphLines& graph, GraphProblems& problems) {
  double parameters = 0;
  double activations = 0;
  for (const GraphNode& node : graph.nodes) {
    parameters += node.parameter_bytes;
    activations += node.activation_bytes;
  }
  for (const auto& [what, sum] :
       {std::pair{"parameter_size", parameters}, {"activation_size", activations}}) {
    if (sum <= kMostBytes) continue;
    problems.at(1, format("%s of all nodes add up to %s (more than %s, which no device holds). "
                          "Correct them.",
                          what, format_bytes(sum).c_str(), format_bytes(kMostBytes).c_str()));
  }
  if (std::all_of(graph.nodes.begin(), graph.nodes.end(),
                  [](const GraphNode& node) { return node.forward == 0 && node.backward == 0; })) {
    problems.of_file(
        "no node takes any time (a network without cost cannot be partitioned; nodes called Input "
        "load data, which takes none on a device). Measure it again.");
  }
}

struct Batch {
  int samples = 1;
  std::string note;  // how it became known when nobody gave it
};

Batch batch_of(const GraphLines& graph, const std::string& file, std::optional<int> given,
               GraphProblems& problems) {
  if (given) {
    if (*given < 1 || *given > kMostBatch) {
      problems.of_file(
          format("batch %d (must be between 1 and %d). Give the samples per call that "
                 "were measured.",
                 *given, kMostBatch));
    }
    return {*given, ""};
  }
  if (const auto named = batch_in_name(file)) {
    return {*named, format("%s: batch %d, from the file's name", file.c_str(), *named)};
  }
  if (const auto found = batch_in_layers(graph.nodes)) {
    return {found->batch, format("%s: batch %d, from the size of %s", file.c_str(), found->batch,
                                 found->witness.c_str())};
  }
  problems.of_file(
      "the file does not say how many samples a call had (neither its name, as in "
      "NAME-pbs-32.txt, nor its layers do). Give the number: --profile-batch 32.");
  return {};
}

// "Conv2d" of "Conv2d(3, 64, kernel_size=(3, 3))". Names of classes are ASCII; what is not might
// be no text at all.
std::string type_of(std::string_view description) {
  std::string type(trimmed(description.substr(0, description.find('('))));
  for (char& c : type) {
    if (c < ' ' || c > '~') c = '?';
  }
  return type;
}

// PipeDream's profiler calls what feeds the network "Input" or, where several do, "Input0",
// "Input1". Its time is that of reading and decoding samples.
bool is_input(const GraphNode& node) {
  const std::string type = type_of(node.description);
  constexpr std::string_view kInput = "Input";
  return type.starts_with(kInput) &&
         type.find_first_not_of("0123456789", kInput.size()) == std::string::npos;
}

// Which runs on no GPU: such nodes take no time. Returns what to say about it.
std::string leave_out_loading(GraphLines& graph, const std::string& file) {
  double seconds = 0;
  double all = 0;
  std::vector<std::string> names;
  for (GraphNode& node : graph.nodes) {
    const double takes = node.forward + node.backward;
    all += takes;
    if (takes == 0 || !is_input(node)) continue;
    seconds += takes;
    names.push_back("node" + std::to_string(node.number));
    node.forward = node.backward = 0;
  }
  if (names.empty()) return "";
  return format("%s: %s of loading data (%s, 'Input'), %.0f %% of all times, left out",
                file.c_str(), format_seconds(seconds).c_str(), join(names, ", ").c_str(),
                100 * seconds / all);
}

// Layers and one measurement, without the latter's device and batch.
Profile profile_of(const GraphLines& graph, const GraphOrder& sorted) {
  std::vector<int> place(graph.nodes.size());
  std::vector<bool> read(graph.nodes.size(), false);
  for (const auto& inputs : sorted.inputs) {
    for (const int input : inputs) read[static_cast<std::size_t>(input)] = true;
  }
  for (std::size_t l = 0; l < sorted.order.size(); ++l) {
    place[static_cast<std::size_t>(sorted.order[l])] = static_cast<int>(l);
  }
  Profile profile;
  Measurement measured;
  for (const int at : sorted.order) {
    const GraphNode& node = graph.nodes[static_cast<std::size_t>(at)];
    ProfileLayer layer;
    layer.name = "node" + std::to_string(node.number);
    const std::string type = type_of(node.description);
    if (!type.empty()) layer.name += " " + type;
    for (const int input : sorted.inputs[static_cast<std::size_t>(at)]) {
      layer.inputs.push_back(place[static_cast<std::size_t>(input)]);
    }
    std::sort(layer.inputs.begin(), layer.inputs.end());
    layer.parameter_bytes = std::llround(node.parameter_bytes);
    layer.output = !read[static_cast<std::size_t>(at)] && at != sorted.order.back();
    profile.layers.push_back(std::move(layer));
    measured.forward.push_back(node.forward);
    measured.backward.push_back(node.backward);
    measured.output_bytes.push_back(std::llround(node.activation_bytes));
  }
  measured.stash_bytes = measured.output_bytes;
  profile.measurements.push_back(std::move(measured));
  return profile;
}

}  // namespace

bool looks_like_graph_txt(std::string_view text) {
  text = trimmed(text.substr(0, 200));
  std::size_t end = 0;
  while (end < text.size() && text[end] != ' ' && text[end] != '\n' && text[end] != '\r') ++end;
  if (!node_number(text.substr(0, end))) return false;
  return !trimmed(text.substr(end)).starts_with('=');  // node1 = ... would be TOML
}

GraphTxt parse_graph_txt(std::string_view text, const std::string& file,
                         const ProfileOrigin& origin) {
  GraphProblems problems(file);
  GraphLines graph = read_graph_lines(text, problems);
  problems.throw_if_any();
  leave_out_unread_items(graph);
  const GraphOrder sorted = topological_order(graph, problems);
  problems.throw_if_any();
  check_connected(graph, problems);
  const std::string loading = leave_out_loading(graph, file);
  check_totals(graph, problems);
  if (!origin.device) {
    problems.of_file(
        "the file does not say what it was measured on (graph.txt has no place for it). "
        "Name the device type as the cluster file does: --profile-device v100.");
  }
  const Batch batch = batch_of(graph, file, origin.batch, problems);
  problems.throw_if_any();

  std::vector<std::string> notes;
  for (const std::string& note : {batch.note, loading}) {
    if (!note.empty()) notes.push_back(note);
  }
  GraphTxt result{profile_of(graph, sorted), join(notes, "\n")};
  result.profile.model = graph_model_of(file);
  result.profile.measurements.front().device = *origin.device;
  result.profile.measurements.front().batch = batch.samples;
  return result;
}

}  // namespace hetpipe
