// SPDX-License-Identifier: Apache-2.0
#include "partitioner/profile/graph_order.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <queue>
#include <set>
#include <string>

#include "base/text.h"

namespace hetpipe {
namespace {

std::map<int, int> places_of(const GraphLines& graph) {
  std::map<int, int> place;  // number -> index
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    place[graph.nodes[n].number] = static_cast<int>(n);
  }
  return place;
}

// Walks backwards through nodes that could not be placed until one comes again. First and last are
// the same; indices.
std::vector<int> cycle_among(const std::vector<std::vector<int>>& inputs,
                             const std::vector<std::size_t>& missing) {
  std::vector<int> path;
  std::set<int> on_path;
  std::size_t at = 0;
  while (missing[at] == 0) ++at;
  while (on_path.insert(static_cast<int>(at)).second) {
    path.push_back(static_cast<int>(at));
    for (const int input : inputs[at]) {
      if (missing[static_cast<std::size_t>(input)] > 0) {
        at = static_cast<std::size_t>(input);
        break;
      }
    }
  }
  path.erase(path.begin(), std::find(path.begin(), path.end(), static_cast<int>(at)));
  path.push_back(static_cast<int>(at));
  std::reverse(path.begin(), path.end());
  return path;
}

void tell_cycle(const GraphLines& graph, const std::vector<int>& path, GraphProblems& problems) {
  std::vector<std::string> names;
  for (const int node : path) {
    names.push_back("node" + std::to_string(graph.nodes[static_cast<std::size_t>(node)].number));
  }
  constexpr std::size_t kShown = 12;
  if (names.size() > kShown) {
    names.erase(names.begin() + kShown / 2, names.end() - kShown / 2);
    names.insert(names.begin() + kShown / 2, "...");
  }
  const int to = graph.nodes[static_cast<std::size_t>(path.back())].number;
  const int from = graph.nodes[static_cast<std::size_t>(path[path.size() - 2])].number;
  const auto closing =
      std::find_if(graph.edges.begin(), graph.edges.end(),
                   [&](const GraphEdge& edge) { return edge.from == from && edge.to == to; });
  problems.at(closing == graph.edges.end() ? 1 : closing->line,
              "the graph has a cycle: " + join(names, " -> ") +
                  " (a layer cannot wait for its own output). Remove one of these edges.");
}

}  // namespace

void leave_out_unread_items(GraphLines& graph) {
  std::set<int> read;
  for (const GraphEdge& edge : graph.edges) read.insert(edge.from);
  std::set<int> unread;
  for (const GraphNode& node : graph.nodes) {
    if (node.description.starts_with("__getitem__") && !read.contains(node.number) &&
        node.forward == 0 && node.backward == 0) {
      unread.insert(node.number);
    }
  }
  if (unread.size() == graph.nodes.size()) return;
  std::erase_if(graph.nodes, [&](const GraphNode& node) { return unread.contains(node.number); });
  std::erase_if(graph.edges, [&](const GraphEdge& edge) { return unread.contains(edge.to); });
}

GraphOrder topological_order(const GraphLines& graph, GraphProblems& problems) {
  const std::map<int, int> place = places_of(graph);
  GraphOrder result;
  result.inputs.resize(graph.nodes.size());
  std::vector<std::vector<int>> readers(graph.nodes.size());
  for (const GraphEdge& edge : graph.edges) {
    result.inputs[static_cast<std::size_t>(place.at(edge.to))].push_back(place.at(edge.from));
    readers[static_cast<std::size_t>(place.at(edge.from))].push_back(place.at(edge.to));
  }
  const auto later = [&graph](int a, int b) {
    return graph.nodes[static_cast<std::size_t>(a)].number >
           graph.nodes[static_cast<std::size_t>(b)].number;
  };
  std::priority_queue<int, std::vector<int>, decltype(later)> ready(later);
  std::vector<std::size_t> missing(graph.nodes.size());
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    missing[n] = result.inputs[n].size();
    if (missing[n] == 0) ready.push(static_cast<int>(n));
  }
  while (!ready.empty()) {
    const int node = ready.top();
    ready.pop();
    result.order.push_back(node);
    for (const int reader : readers[static_cast<std::size_t>(node)]) {
      if (--missing[static_cast<std::size_t>(reader)] == 0) ready.push(reader);
    }
  }
  if (result.order.size() < graph.nodes.size()) {
    tell_cycle(graph, cycle_among(result.inputs, missing), problems);
  }
  return result;
}

void check_connected(const GraphLines& graph, GraphProblems& problems) {
  const std::map<int, int> place = places_of(graph);
  std::vector<int> component(graph.nodes.size());
  std::iota(component.begin(), component.end(), 0);
  const auto root = [&](int node) {
    while (component[static_cast<std::size_t>(node)] != node) {
      int& up = component[static_cast<std::size_t>(node)];
      up = component[static_cast<std::size_t>(up)];
      node = up;
    }
    return node;
  };
  for (const GraphEdge& edge : graph.edges) {
    component[static_cast<std::size_t>(root(place.at(edge.from)))] = root(place.at(edge.to));
  }
  std::set<int> named{root(0)};
  for (std::size_t n = 1; n < graph.nodes.size(); ++n) {
    if (!named.insert(root(static_cast<int>(n))).second) continue;
    problems.at(graph.nodes[n].line,
                format("node%d: no chain of edges joins it to node%d (a network is one connected "
                       "graph). Add the missing edge or remove the node.",
                       graph.nodes[n].number, graph.nodes[0].number));
  }
}

}  // namespace hetpipe
