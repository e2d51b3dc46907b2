// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "partitioner/cluster/device_type.h"
#include "partitioner/planners/what_if.h"
#include "partitioner/planners/what_if_settings.h"
#include "partitioner/trimmed.h"

namespace hetpipe {
namespace {

constexpr int kMostDevices = 65536;  // that one change may add

std::optional<int> try_number(const std::string& word) {
  int value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc{} || end != word.data() + word.size()) return std::nullopt;
  return value;
}

// "+2 rtx-3090 @n0", taken apart.
struct Change {
  std::string text;
  bool adds = false;
  std::optional<int> number;
  std::string name;  // a kind, a node or a device
  std::string node;  // after '@'
};

class ClusterChange {
 public:
  ClusterChange(const Cluster& cluster, const FindKind& find_kind,
                const std::vector<std::string>& known, const std::string& where)
      : cluster_(cluster), find_kind_(find_kind), known_(known), where_(where) {
    for (const Node& node : cluster.nodes) {
      auto& names = before_.emplace_back();
      for (std::size_t i = 0; i < node.kinds.size(); ++i) {
        names.emplace_back(DeviceName{node.name, static_cast<int>(i)});
      }
    }
  }

  void apply(const std::string& text) {
    if (is_setting(text)) return apply_setting(text, cluster_, settings_, where_);
    const Change change = parsed(text);
    if (change.adds) {
      add(change);
    } else if (change.number) {
      remove_kind(change);
    } else if (try_parse_device(change.name) && !cluster_.find_node(change.name)) {
      remove_device(change);
    } else {
      remove_node(change);
    }
  }

  PoolChange result() {
    drop_rules_of_missing_nodes();
    const bool workers = std::any_of(cluster_.nodes.begin(), cluster_.nodes.end(),
                                     [](const Node& node) { return !node.kinds.empty(); });
    if (!workers) {
      throw UserError(where_,
                      "leaves no device (at least one is needed to compute). Remove fewer.");
    }
    PoolChange change{std::move(cluster_), settings_};
    for (std::size_t n = 0; n < before_.size(); ++n) {
      for (std::size_t i = 0; i < before_[n].size(); ++i) {
        if (!before_[n][i]) continue;
        change.before[{change.cluster.nodes[n].name, static_cast<int>(i)}] = *before_[n][i];
      }
    }
    return change;
  }

 private:
  [[noreturn]] void refuse(const Change& change, const std::string& why) const {
    throw UserError(where_, "'" + change.text + "': " + why);
  }

  Change parsed(const std::string& text) const {
    Change change;
    change.text = text;
    if (text.empty())
      throw UserError(where_, std::string("contains an empty change. ") + kChangeGrammar);
    change.adds = text[0] == '+';
    if (!change.adds && text[0] != '-') {
      refuse(change,
             std::string("neither adds nor removes devices (such changes start with + or -), nor "
                         "does it name links or a setting. ") +
                 kChangeGrammar);
    }
    std::string rest(trimmed(std::string_view(text).substr(1)));
    if (const std::size_t at = rest.find('@'); at != rest.npos) {
      change.node = trimmed(std::string_view(rest).substr(at + 1));
      rest = std::string(trimmed(std::string_view(rest).substr(0, at)));
      if (change.node.empty())
        refuse(change, std::string("no node follows the @. ") + kChangeGrammar);
      if (change.node.find_first_of(" \t@") != std::string::npos) {
        refuse(change, "'" + change.node + "' is more than one node. " + kChangeGrammar);
      }
    }
    std::vector<std::string> words;
    for (const std::string& word : split(rest, ' ')) {
      if (!word.empty()) words.push_back(word);
    }
    if (words.size() == 2) {
      change.number = try_number(words[0]);
      if (!change.number) refuse(change, "'" + words[0] + "' is not a number. " + kChangeGrammar);
      words.erase(words.begin());
    }
    if (words.size() != 1) refuse(change, std::string("is not understood. ") + kChangeGrammar);
    change.name = words[0];
    if (change.number && (*change.number < 1 || *change.number > kMostDevices)) {
      refuse(change, format("%d devices (must be between 1 and %d). Correct the number.",
                            *change.number, kMostDevices));
    }
    if (change.adds && change.node.empty()) {
      refuse(change,
             "names no node. Add @NODE; a name that the cluster does not have is a new node.");
    }
    if (!change.adds && !change.number && !change.node.empty()) change.number = 1;
    return change;
  }

  std::optional<int> index_of_kind(const std::string& name) const {
    for (std::size_t i = 0; i < cluster_.kinds.size(); ++i) {
      if (same_device_type(cluster_.kinds[i].name, name)) return static_cast<int>(i);
    }
    return std::nullopt;
  }

  std::vector<std::string> node_names() const {
    std::vector<std::string> names;
    for (const Node& node : cluster_.nodes) names.push_back(node.name);
    return names;
  }

  Node& node_named(const Change& change, const std::string& name) {
    const auto id = cluster_.find_node(name);
    if (!id) refuse(change, unknown("node", name, node_names()) + ". Name a node of the cluster.");
    return cluster_.nodes[static_cast<std::size_t>(id->value)];
  }

  // Adds the kind to the cluster's where only the catalogue knows it.
  int kind_named(const Change& change) {
    if (const auto index = index_of_kind(change.name)) return *index;
    if (const auto kind = find_kind_(change.name)) {
      cluster_.kinds.push_back(*kind);
      return static_cast<int>(cluster_.kinds.size()) - 1;
    }
    std::vector<std::string> names = known_;
    for (const DeviceKind& kind : cluster_.kinds) names.push_back(kind.name);
    refuse(change, unknown("device type", change.name, names) +
                       ". Name one of the cluster file or of the catalogue.");
  }

  void add(const Change& change) {
    if (change.node.find(':') != std::string::npos) {
      refuse(change, "'" + change.node + "' is a device (a node is expected). Leave the : out.");
    }
    const int kind = kind_named(change);
    if (!cluster_.find_node(change.node)) {
      if (cluster_.inter_node.bandwidth <= 0) {
        refuse(change,
               "node '" + change.node +
                   "' would be the second node, and the cluster has no links between nodes. Add "
                   "[link.inter_node] to its file.");
      }
      cluster_.nodes.push_back({change.node, {}});
      before_.emplace_back();
    }
    Node& node = node_named(change, change.node);
    node.kinds.insert(node.kinds.end(), static_cast<std::size_t>(change.number.value_or(1)), kind);
    names_of(node).resize(node.kinds.size());
  }

  void remove_node(const Change& change) {
    if (!cluster_.find_node(change.name) && index_of_kind(change.name)) {
      refuse(change, "'" + change.name + "' is a device type, not a node. Write -1 " + change.name +
                         " for one of them.");
    }
    const auto at = &node_named(change, change.name) - cluster_.nodes.data();
    cluster_.nodes.erase(cluster_.nodes.begin() + at);
    before_.erase(before_.begin() + at);
  }

  void remove_device(const Change& change) {
    const DeviceName device = *try_parse_device(change.name);
    Node& node = node_named(change, device.node);
    if (device.index >= static_cast<int>(node.kinds.size())) {
      refuse(change, format("node %s has %zu devices, counted from 0. Name one of them.",
                            node.name.c_str(), node.kinds.size()));
    }
    remove_at(node, device.index);
  }

  std::vector<std::optional<DeviceName>>& names_of(const Node& node) {
    return before_[static_cast<std::size_t>(&node - cluster_.nodes.data())];
  }

  void remove_at(Node& node, std::ptrdiff_t index) {
    node.kinds.erase(node.kinds.begin() + index);
    names_of(node).erase(names_of(node).begin() + index);
  }

  void remove_kind(const Change& change) {
    const auto kind = index_of_kind(change.name);
    if (!kind) {
      std::vector<std::string> names;
      for (const DeviceKind& known : cluster_.kinds) names.push_back(known.name);
      refuse(change, unknown("device type", change.name, names) + ". Name one of the cluster.");
    }
    int left = *change.number;
    const auto take = [&](Node& node) {
      for (std::size_t i = node.kinds.size(); i-- > 0 && left > 0;) {
        if (node.kinds[i] != *kind) continue;
        remove_at(node, static_cast<std::ptrdiff_t>(i));
        --left;
      }
    };
    if (!change.node.empty()) {
      take(node_named(change, change.node));
    } else {
      for (auto node = cluster_.nodes.rbegin(); node != cluster_.nodes.rend(); ++node) take(*node);
    }
    if (left > 0) {
      refuse(change,
             format("there are only %d of that type%s. Remove fewer.", *change.number - left,
                    change.node.empty() ? "" : (" on " + change.node).c_str()));
    }
  }

  void drop_rules_of_missing_nodes() {
    std::erase_if(cluster_.between, [&](const LinkBetween& rule) {
      return std::any_of(rule.nodes.begin(), rule.nodes.end(),
                         [&](const std::string& name) { return !cluster_.find_node(name); });
    });
  }

  Cluster cluster_;
  std::vector<std::vector<std::optional<DeviceName>>> before_;  // [node][device]
  PlanSettings settings_;
  const FindKind& find_kind_;
  const std::vector<std::string>& known_;
  const std::string& where_;
};

}  // namespace

PoolChange changed_pool(const Cluster& cluster, std::string_view changes, const FindKind& find_kind,
                        const std::vector<std::string>& known, const std::string& where) {
  ClusterChange change(cluster, find_kind, known, where);
  for (const std::string& text : split(std::string(changes), ',')) {
    change.apply(std::string(trimmed(text)));
  }
  return change.result();
}

}  // namespace hetpipe
