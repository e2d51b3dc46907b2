// SPDX-License-Identifier: Apache-2.0
#include "partitioner/profile/graph_txt.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <map>
#include <numeric>
#include <queue>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "partitioner/profile/graph_batch.h"

namespace hetpipe {
namespace {

constexpr double kMostMilliseconds = 1e8;
constexpr double kMostBytes = 1e13;
constexpr std::size_t kMostNodes = 100'000;
constexpr int kMostBatch = 10'000'000;
constexpr std::size_t kMostProblems = 100;  // a wrong file need not be told line by line

std::string_view trimmed(std::string_view text) {
  const auto space = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
  while (!text.empty() && space(text.front())) text.remove_prefix(1);
  while (!text.empty() && space(text.back())) text.remove_suffix(1);
  return text;
}

// The number of "node12"; nothing for any other word.
std::optional<int> node_number(std::string_view word) {
  constexpr std::string_view kNode = "node";
  if (!word.starts_with(kNode)) return std::nullopt;
  word.remove_prefix(kNode.size());
  int number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (word.empty() || error != std::errc() || end != word.data() + word.size() || number < 0) {
    return std::nullopt;
  }
  return number;
}

struct Edge {
  int from = 0;
  int to = 0;
  int line = 0;
};

class GraphFile {
 public:
  GraphFile(std::string_view text, const std::string& file, const ProfileOrigin& origin)
      : text_(text), file_(file), origin_(origin) {}

  GraphTxt read() {
    read_lines();
    check_edges();
    problems_.throw_if_any();
    leave_out_unread_items();
    const std::vector<int> order = topological_order();
    problems_.throw_if_any();
    check_connected();
    check_totals();
    GraphTxt result = profile_in(order);
    problems_.throw_if_any();
    return result;
  }

 private:
  void problem(int line, std::string text) {
    if (problems_.list().size() < kMostProblems) {
      problems_.add(file_ + ":" + std::to_string(line), std::move(text));
    }
  }

  void read_lines() {
    std::size_t start = 0;
    for (int line = 1; start < text_.size(); ++line) {
      const std::size_t end = std::min(text_.find('\n', start), text_.size());
      const std::string_view text = text_.substr(start, end - start);
      start = end + 1;
      last_line_ = line;
      if (trimmed(text).empty()) continue;
      if (text.front() == '\t' || text.front() == ' ') {
        read_edge(trimmed(text), line);
      } else {
        read_node(trimmed(text), line);
      }
    }
    if (nodes_.empty() && problems_.empty()) {
      problem(
          std::max(last_line_, 1),
          "no node in the file (a profile has at least one). Give the graph.txt that PipeDream's "
          "profiler wrote.");
    }
  }

  // nodeA -- nodeB
  void read_edge(std::string_view text, int line) {
    const std::size_t dashes = text.find(" -- ");
    const auto from = dashes == std::string_view::npos
                          ? std::nullopt
                          : node_number(trimmed(text.substr(0, dashes)));
    const auto to = dashes == std::string_view::npos
                        ? std::nullopt
                        : node_number(trimmed(text.substr(dashes + 4)));
    if (!from || !to) {
      problem(line,
              "'" + shortened(text) +
                  "' is no edge (an edge is 'nodeA -- nodeB'; a node's line is not indented). "
                  "Correct the line, or write the profile again if it was cut off.");
      return;
    }
    edges_.push_back({*from, *to, line});
  }

  // nodeN -- description -- forward_compute_time=.., .. [-- stage_id=K, which a partitioned graph
  // has and which is no part of a profile]
  void read_node(std::string_view text, int line) {
    constexpr std::string_view kFields = " -- forward_compute_time=";
    const std::size_t dashes = text.find(" -- ");
    const std::size_t fields = text.rfind(kFields);
    const auto number = node_number(trimmed(text.substr(0, std::min(dashes, text.size()))));
    if (!number || fields == std::string_view::npos || fields < dashes) {
      problem(line,
              "'" + shortened(text) +
                  "' is no node (a node is 'nodeN -- description -- forward_compute_time=.., "
                  "backward_compute_time=.., activation_size=.., parameter_size=..'). Correct "
                  "the line, or write the profile again if it was cut off.");
      if (number) node_of_.try_emplace(*number, -1);  // its edges are no further problem
      return;
    }
    GraphNode node;
    node.number = *number;
    node.line = line;
    if (fields > dashes) {
      node.description = std::string(trimmed(text.substr(dashes + 4, fields - dashes - 4)));
    }
    const bool whole = read_fields(text.substr(fields + 4), node);
    const auto [at, added] = node_of_.try_emplace(*number, static_cast<int>(nodes_.size()));
    if (!added) {
      const std::string before =
          at->second < 0
              ? "an earlier line"
              : "line " + std::to_string(nodes_[static_cast<std::size_t>(at->second)].line);
      problem(line, "node" + std::to_string(*number) + " stands twice (first in " + before +
                        "; edges name nodes by number). Remove or renumber one.");
      return;
    }
    if (nodes_.size() == kMostNodes) {
      problem(line,
              format("more than %zu nodes (no network has so many layers). Give another file.",
                     kMostNodes));
    }
    if (whole && nodes_.size() < kMostNodes) {
      nodes_.push_back(std::move(node));
    } else {
      at->second = -1;
    }
  }

  // forward_compute_time=1.5, backward_compute_time=3.1, activation_size=[1.0; 2.0], ...
  bool read_fields(std::string_view text, GraphNode& node) {
    text = text.substr(0, text.find(" -- "));
    std::map<std::string, std::string_view> fields;
    for (std::size_t start = 0; start <= text.size();) {
      const std::size_t end = std::min(text.find(',', start), text.size());
      const std::string_view field = trimmed(text.substr(start, end - start));
      start = end + 1;
      const std::size_t equals = field.find('=');
      if (equals == std::string_view::npos) continue;
      fields[std::string(field.substr(0, equals))] = field.substr(equals + 1);
    }
    bool whole = true;
    const auto take = [&](const char* key, double most, const char* unit) {
      const auto at = fields.find(key);
      const auto values =
          at == fields.end() ? std::vector<std::optional<double>>{std::nullopt} : list(at->second);
      double sum = 0;
      for (const auto& value : values) {
        if (!value) {
          whole = false;
          problem(node.line,
                  format("node%d: %s %s (each node has the four numbers). Write it again.",
                         node.number, key, at == fields.end() ? "is missing" : "is no number"));
          return sum;
        }
        if (*value < 0 || *value > most) {
          whole = false;
          problem(node.line, format("node%d: %s = %g (must be between 0 and %g %s). Correct it.",
                                    node.number, key, *value, most, unit));
          return sum;
        }
        sum += *value;
        node.activations.push_back(*value);
      }
      return sum;
    };
    node.forward = take("forward_compute_time", kMostMilliseconds, "ms") / 1e3;
    node.backward = take("backward_compute_time", kMostMilliseconds, "ms") / 1e3;
    node.parameter_bytes = take("parameter_size", kMostBytes, "bytes");
    node.activations.clear();
    node.activation_bytes = take("activation_size", kMostBytes, "bytes");
    return whole;
  }

  // "1.5" or "[1.0; 2.0]", nothing for what is no number (inf and nan are none).
  static std::vector<std::optional<double>> list(std::string_view text) {
    std::vector<std::optional<double>> values;
    if (text.starts_with('[') && text.ends_with(']')) text = text.substr(1, text.size() - 2);
    for (const std::string& part : split(std::string(text), ';')) {
      const std::string_view word = trimmed(part);
      double value = 0;
      const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
      const bool good =
          error == std::errc() && end == word.data() + word.size() && std::isfinite(value);
      values.push_back(good && !word.empty() ? std::optional(value) : std::nullopt);
    }
    return values;
  }

  void check_edges() {
    std::set<std::pair<int, int>> seen;
    for (const Edge& edge : edges_) {
      for (const int end : {edge.from, edge.to}) {
        if (node_of_.contains(end)) continue;
        problem(edge.line, format("edge node%d -- node%d: no node%d in the file (an edge joins two "
                                  "nodes). Add the node's line or remove the edge.",
                                  edge.from, edge.to, end));
      }
      if (!seen.insert({edge.from, edge.to}).second) {
        problem(edge.line, format("edge node%d -- node%d stands twice (a tensor is read once). "
                                  "Remove one.",
                                  edge.from, edge.to));
      }
    }
  }

  // An LSTM returns its states beside its output; those that nobody takes are no layers.
  void leave_out_unread_items() {
    std::set<int> read;
    for (const Edge& edge : edges_) read.insert(edge.from);
    std::set<int> unread;
    for (const GraphNode& node : nodes_) {
      if (node.description.starts_with("__getitem__") && !read.contains(node.number) &&
          node.forward == 0 && node.backward == 0) {
        unread.insert(node.number);
      }
    }
    if (unread.size() == nodes_.size()) return;
    std::erase_if(nodes_, [&](const GraphNode& node) { return unread.contains(node.number); });
    std::erase_if(edges_, [&](const Edge& edge) { return unread.contains(edge.to); });
    node_of_.clear();
    for (std::size_t n = 0; n < nodes_.size(); ++n) {
      node_of_[nodes_[n].number] = static_cast<int>(n);
    }
  }

  int place_of(int number) const { return node_of_.at(number); }

  // Kahn's algorithm; of the nodes whose producers are all placed, the one with the smallest
  // number.
  std::vector<int> topological_order() {
    inputs_.assign(nodes_.size(), {});
    std::vector<std::vector<int>> readers(nodes_.size());
    for (const Edge& edge : edges_) {
      inputs_[static_cast<std::size_t>(place_of(edge.to))].push_back(place_of(edge.from));
      readers[static_cast<std::size_t>(place_of(edge.from))].push_back(place_of(edge.to));
    }
    const auto later = [this](int a, int b) {
      return nodes_[static_cast<std::size_t>(a)].number >
             nodes_[static_cast<std::size_t>(b)].number;
    };
    std::priority_queue<int, std::vector<int>, decltype(later)> ready(later);
    std::vector<std::size_t> missing(nodes_.size());
    for (std::size_t n = 0; n < nodes_.size(); ++n) {
      missing[n] = inputs_[n].size();
      if (missing[n] == 0) ready.push(static_cast<int>(n));
    }
    std::vector<int> order;
    while (!ready.empty()) {
      const int node = ready.top();
      ready.pop();
      order.push_back(node);
      for (const int reader : readers[static_cast<std::size_t>(node)]) {
        if (--missing[static_cast<std::size_t>(reader)] == 0) ready.push(reader);
      }
    }
    if (order.size() < nodes_.size()) tell_cycle(missing);
    return order;
  }

  // Walks backwards through nodes that could not be placed until one comes again.
  void tell_cycle(const std::vector<std::size_t>& missing) {
    std::vector<int> path;
    std::set<int> on_path;
    std::size_t at = 0;
    while (missing[at] == 0) ++at;
    while (on_path.insert(static_cast<int>(at)).second) {
      path.push_back(static_cast<int>(at));
      for (const int input : inputs_[at]) {
        if (missing[static_cast<std::size_t>(input)] > 0) {
          at = static_cast<std::size_t>(input);
          break;
        }
      }
    }
    path.erase(path.begin(), std::find(path.begin(), path.end(), static_cast<int>(at)));
    path.push_back(static_cast<int>(at));
    std::reverse(path.begin(), path.end());
    std::vector<std::string> names;
    for (const int node : path) {
      names.push_back("node" + std::to_string(nodes_[static_cast<std::size_t>(node)].number));
    }
    constexpr std::size_t kShown = 12;
    if (names.size() > kShown) {
      names.erase(names.begin() + kShown / 2, names.end() - kShown / 2);
      names.insert(names.begin() + kShown / 2, "...");
    }
    const int to = nodes_[static_cast<std::size_t>(path.back())].number;
    const int from = nodes_[static_cast<std::size_t>(path[path.size() - 2])].number;
    const auto closing = std::find_if(edges_.begin(), edges_.end(), [&](const Edge& edge) {
      return edge.from == from && edge.to == to;
    });
    problem(closing == edges_.end() ? 1 : closing->line,
            "the graph has a cycle: " + join(names, " -> ") +
                " (a layer cannot wait for its own output). Remove one of these edges.");
  }

  // One network is one component. Layers that nobody reads are fine within it: auxiliary heads.
  void check_connected() {
    std::vector<int> component(nodes_.size());
    std::iota(component.begin(), component.end(), 0);
    const auto root = [&](int node) {
      while (component[static_cast<std::size_t>(node)] != node) {
        int& up = component[static_cast<std::size_t>(node)];
        up = component[static_cast<std::size_t>(up)];
        node = up;
      }
      return node;
    };
    for (const Edge& edge : edges_) {
      component[static_cast<std::size_t>(root(place_of(edge.from)))] = root(place_of(edge.to));
    }
    std::set<int> told{root(0)};
    for (std::size_t n = 1; n < nodes_.size(); ++n) {
      if (!told.insert(root(static_cast<int>(n))).second) continue;
      problem(nodes_[n].line,
              format("node%d: no chain of edges joins it to node%d (a network is one connected "
                     "graph). Add the missing edge or remove the node.",
                     nodes_[n].number, nodes_[0].number));
    }
  }

  void check_totals() {
    double parameters = 0;
    double activations = 0;
    for (const GraphNode& node : nodes_) {
      parameters += node.parameter_bytes;
      activations += node.activation_bytes;
    }
    for (const auto& [what, sum] :
         {std::pair{"parameter_size", parameters}, {"activation_size", activations}}) {
      if (sum <= kMostBytes) continue;
      problem(1, format("%s of all nodes add up to %s (more than %s, which no device holds). "
                        "Correct them.",
                        what, format_bytes(sum).c_str(), format_bytes(kMostBytes).c_str()));
    }
  }

  GraphTxt profile_in(const std::vector<int>& order) {
    GraphTxt result;
    Measurement measured;
    if (!origin_.device) {
      problems_.add(
          file_,
          "the file does not say what it was measured on (graph.txt has no place for it). "
          "Name the kind of device as the cluster file does: --profile-device v100.");
    }
    measured.device = origin_.device.value_or("");
    measured.batch = batch(result.note);

    std::vector<int> place(nodes_.size());
    std::vector<bool> read(nodes_.size(), false);
    for (const auto& inputs : inputs_) {
      for (const int input : inputs) read[static_cast<std::size_t>(input)] = true;
    }
    for (std::size_t l = 0; l < order.size(); ++l) {
      place[static_cast<std::size_t>(order[l])] = static_cast<int>(l);
    }
    for (const int at : order) {
      const GraphNode& node = nodes_[static_cast<std::size_t>(at)];
      ProfileLayer layer;
      layer.name = "node" + std::to_string(node.number);
      const std::string type = type_of(node.description);
      if (!type.empty()) layer.name += " " + type;
      for (const int input : inputs_[static_cast<std::size_t>(at)]) {
        layer.inputs.push_back(place[static_cast<std::size_t>(input)]);
      }
      std::sort(layer.inputs.begin(), layer.inputs.end());
      layer.parameter_bytes = std::llround(node.parameter_bytes);
      layer.output = !read[static_cast<std::size_t>(at)] && at != order.back();
      result.profile.layers.push_back(std::move(layer));
      measured.forward.push_back(node.forward);
      measured.backward.push_back(node.backward);
      measured.output_bytes.push_back(std::llround(node.activation_bytes));
    }
    measured.stash_bytes = measured.output_bytes;
    result.profile.model = graph_model_of(file_);
    result.profile.measurements.push_back(std::move(measured));
    return result;
  }

  int batch(std::string& note) {
    if (origin_.batch) {
      if (*origin_.batch < 1 || *origin_.batch > kMostBatch) {
        problems_.add(file_,
                      format("batch %d (must be between 1 and %d). Give the samples per call "
                             "that were measured.",
                             *origin_.batch, kMostBatch));
      }
      return *origin_.batch;
    }
    if (const auto named = batch_in_name(file_)) {
      note = format("%s: batch %d, from the file's name", file_.c_str(), *named);
      return *named;
    }
    if (const auto found = batch_in_layers(nodes_)) {
      note = format("%s: batch %d, from the size of %s", file_.c_str(), found->batch,
                    found->witness.c_str());
      return found->batch;
    }
    problems_.add(file_,
                  "the file does not say how many samples a call had (neither its name, as in "
                  "NAME-pbs-32.txt, nor its layers do). Give the number: --profile-batch 32.");
    return 1;
  }

  // "Conv2d" of "Conv2d(3, 64, kernel_size=(3, 3))".
  static std::string type_of(std::string_view description) {
    return std::string(trimmed(description.substr(0, description.find('('))));
  }

  static std::string shortened(std::string_view text) {
    constexpr std::size_t kShown = 60;
    return text.size() <= kShown ? std::string(text) : std::string(text.substr(0, kShown)) + "...";
  }

  std::string_view text_;
  const std::string& file_;
  const ProfileOrigin& origin_;
  Problems problems_;
  std::vector<GraphNode> nodes_;  // in the file's order
  std::map<int, int> node_of_;    // number -> index; -1 for a line that could not be read
  std::vector<Edge> edges_;
  std::vector<std::vector<int>> inputs_;  // of each node, as indices
  int last_line_ = 0;
};

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
  return GraphFile(text, file, origin).read();
}

}  // namespace hetpipe
