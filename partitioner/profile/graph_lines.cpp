// SPDX-License-Identifier: Apache-2.0
#include "partitioner/profile/graph_lines.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "base/text.h"
#include "partitioner/trimmed.h"

namespace hetpipe {
namespace {

constexpr double kMostMilliseconds = 1e8;
constexpr std::size_t kMostNodes = 100'000;
constexpr std::size_t kMostProblems = 100;

std::string shortened(std::string_view text) {
  constexpr std::size_t kShown = 60;
  return text.size() <= kShown ? std::string(text) : std::string(text.substr(0, kShown)) + "...";
}

class LineReader {
 public:
  LineReader(std::string_view text, GraphProblems& problems) : text_(text), problems_(problems) {}

  GraphLines read() {
    read_lines();
    check_edges();
    return std::move(lines_);
  }

 private:
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
    if (lines_.nodes.empty() && problems_.empty()) {
      problems_.at(
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
      problems_.at(
          line,
          "'" + shortened(text) +
              "' is not an edge (an edge is 'nodeA -- nodeB'; a node's line is not indented). "
              "Correct the line, or write the profile again if it was cut off.");
      return;
    }
    lines_.edges.push_back({*from, *to, line});
  }

  // nodeN -- description -- forward_compute_time=.., .. [-- stage_id=K, which a partitioned graph
  // has and which is no part of a profile]
  void read_node(std::string_view text, int line) {
    constexpr std::string_view kFields = " -- forward_compute_time=";
    const std::size_t dashes = text.find(" -- ");
    const std::size_t fields = text.rfind(kFields);
    const auto number = node_number(trimmed(text.substr(0, std::min(dashes, text.size()))));
    if (!number || fields == std::string_view::npos || fields < dashes) {
      problems_.at(
          line, "'" + shortened(text) +
                    "' is not a node (a node is 'nodeN -- description -- forward_compute_time=.., "
                    "backward_compute_time=.., activation_size=.., parameter_size=..'). Correct "
                    "the line, or write the profile again if it was cut off.");
      if (number) line_of_.try_emplace(*number, line);  // its edges are no further problem
      return;
    }
    GraphNode node;
    node.number = *number;
    node.line = line;
    if (fields > dashes) {
      node.description = std::string(trimmed(text.substr(dashes + 4, fields - dashes - 4)));
    }
    const bool whole = read_fields(text.substr(fields + 4), node);
    const auto [at, added] = line_of_.try_emplace(*number, line);
    if (!added) {
      problems_.at(line,
                   format("node%d is given twice (first in line %d; edges name nodes by number). "
                          "Remove or renumber one.",
                          *number, at->second));
      return;
    }
    if (lines_.nodes.size() == kMostNodes) {
      problems_.at(line,
                   format("more than %zu nodes (no network has so many layers). Give another file.",
                          kMostNodes));
    }
    if (whole && lines_.nodes.size() < kMostNodes) lines_.nodes.push_back(std::move(node));
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
          problems_.at(
              node.line,
              format("node%d: %s %s (each node has the four numbers). Write it again.", node.number,
                     key, at == fields.end() ? "is missing" : "is not a number"));
          return sum;
        }
        if (*value < 0 || *value > most) {
          whole = false;
          problems_.at(node.line,
                       format("node%d: %s = %g (must be between 0 and %g %s). Correct it.",
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
    for (const GraphEdge& edge : lines_.edges) {
      for (const int end : {edge.from, edge.to}) {
        if (line_of_.contains(end)) continue;
        problems_.at(edge.line,
                     format("edge node%d -- node%d: no node%d in the file (an edge joins two "
                            "nodes). Add the node's line or remove the edge.",
                            edge.from, edge.to, end));
      }
      if (!seen.insert({edge.from, edge.to}).second) {
        problems_.at(edge.line,
                     format("edge node%d -- node%d is given twice (a tensor is read once). "
                            "Remove one.",
                            edge.from, edge.to));
      }
    }
  }

  std::string_view text_;
  GraphProblems& problems_;
  GraphLines lines_;
  std::map<int, int> line_of_;  // of every node that has a line, readable or not
  int last_line_ = 0;
};

}  // namespace

void GraphProblems::at(int line, std::string text) {
  if (problems_.list().size() < kMostProblems) {
    problems_.add(file_ + ":" + std::to_string(line), std::move(text));
  }
}

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

GraphLines read_graph_lines(std::string_view text, GraphProblems& problems) {
  return LineReader(text, problems).read();
}

}  // namespace hetpipe
