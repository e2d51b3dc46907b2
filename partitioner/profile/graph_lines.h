// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

// The lines of a graph.txt (graph_txt.h), read one by one: nodes and edges as they are written.
namespace hetpipe {

constexpr double kMostBytes = 1e13;     // of one node, or of all
constexpr int kMostBatch = 10'000'000;  // samples

struct GraphNode {
  int number = 0;
  int line = 0;
  std::string description;
  double forward = 0;   // s
  double backward = 0;  // s
  double activation_bytes = 0;
  std::vector<double> activations;  // its summands
  double parameter_bytes = 0;
};

struct GraphEdge {
  int from = 0;  // numbers of nodes
  int to = 0;
  int line = 0;
};

struct GraphLines {
  std::vector<GraphNode> nodes;  // in the file's order
  std::vector<GraphEdge> edges;
};

// The problems of a file, up to a number: a wrong file need not be reported line by line.
class GraphProblems {
 public:
  explicit GraphProblems(const std::string& file) : file_(file) {}
  void at(int line, std::string text);
  void of_file(std::string text) { problems_.add(file_, std::move(text)); }
  void throw_if_any() { problems_.throw_if_any(); }
  bool empty() const { return problems_.empty(); }

 private:
  const std::string& file_;
  Problems problems_;
};

// Problems: lines that are neither node nor edge, invalid, negative or absurd numbers, nodes
// and edges that are given twice, edges of unknown nodes, no node at all.
GraphLines read_graph_lines(std::string_view text, GraphProblems& problems);

// The number of "node12"; nothing for any other word.
std::optional<int> node_number(std::string_view word);

}  // namespace hetpipe
