// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include "base/file.h"
#include "base/text.h"
#include "partitioner/cluster/catalogue.h"
#include "partitioner/cluster/cluster.h"
#include "partitioner/cluster/device_file.h"
#include "partitioner/cluster/device_type.h"
#include "partitioner/file_kind.h"
#include "partitioner/toml_file.h"

// Reading the cluster file (docs/files.md).
namespace hetpipe {
namespace {

using Need = TomlReader::Need;

constexpr std::size_t kMostNodes = 65536;
constexpr std::size_t kMostDevices = 1 << 20;
constexpr Range kRate{1, 1e17};  // bytes/s
constexpr Range kLatency{0, 60};

class ClusterFile {
 public:
  ClusterFile(const TomlValue& root, const std::string& file) : root_(root), file_(file) {}

  Cluster read() {
    TomlReader top(root_, "the file", file_, problems_);
    top.format_is_1();
    if (const TomlValue* kinds = top.table("device")) read_kinds(*kinds);
    for (const TomlValue* node : top.tables("node", Need::required)) read_node(*node);
    read_links(top);
    top.done();
    problems_.throw_if_any();
    return std::move(cluster_);
  }

 private:
  void read_kinds(const TomlValue& kinds) {
    for (const auto& [name, value] : kinds.entries) {
      if (value.kind != TomlValue::Kind::table) {
        problems_.add(file_ + ":" + std::to_string(value.line),
                      "device." + name + " is not a table (a device type is one). Write [device." +
                          name + "].");
        continue;
      }
      if (const DeviceKind* other = find_kind(name)) {
        problems_.add(file_ + ":" + std::to_string(value.line),
                      "[device." + name + "] is [device." + other->name +
                          "] again (capitals, blanks, - and _ make no other device type). "
                          "Remove one.");
      }
      cluster_.kinds.push_back(read_device(value, name, file_, problems_));
    }
  }

  void read_node(const TomlValue& value) {
    TomlReader reader(value, "[[node]]", file_, problems_);
    const auto name = reader.string("name", Need::required);
    const auto devices = reader.strings("devices", Need::required);
    reader.done();
    Node node;
    for (const std::string& device : devices.value_or(std::vector<std::string>{})) {
      if (const DeviceKind* kind = find_kind(device)) {
        node.kinds.push_back(static_cast<int>(kind - cluster_.kinds.data()));
      } else if (auto known = try_catalogue_kind(device)) {
        node.kinds.push_back(static_cast<int>(cluster_.kinds.size()));
        cluster_.kinds.push_back(std::move(*known));
      } else {
        reader.problem(
            reader.line_of("devices"),
            unknown_kind(device) + ". Declare it as [device." + device + "] or correct the name.");
      }
    }
    if (!name) return;
    const auto names = try_expand_host_list(*name);
    if (!names) {
      reader.problem(
          reader.line_of("name"),
          "node name '" + *name +
              "' does not expand (host lists look like n[0-3] or n[0-1,7], and name at most 65536 "
              "hosts). Correct it.");
      return;
    }
    if (cluster_.nodes.size() + names->size() > kMostNodes) {
      reader.problem(reader.line_of("name"),
                     "node name '" + *name + "' expands to more than " +
                         std::to_string(kMostNodes) +
                         " nodes (no cluster has so many). Correct the host list.");
      return;
    }
    devices_ += names->size() * node.kinds.size();
    if (devices_ > kMostDevices) {
      reader.problem(reader.line_of("devices"),
                     "node '" + *name + "' makes more than " + std::to_string(kMostDevices) +
                         " devices (no cluster has so many). Correct name or devices.");
      return;
    }
    for (const std::string& host : *names) {
      if (host.find_first_of(": \t") != std::string::npos) {
        reader.problem(reader.line_of("name"),
                       "node name '" + host +
                           "' contains a colon or a space (devices are named "
                           "node:index). Use a host name.");
        return;  // the others of the list do as well, or are reported in the next turn
      }
      if (!node_names_.insert(host).second) {
        reader.problem(reader.line_of("name"), "node '" + host +
                                                   "' is declared twice (ranks find their node by "
                                                   "its name). Remove one.");
        return;
      }
      node.name = host;
      cluster_.nodes.push_back(node);
    }
  }

  // The nearest name of the file or of the catalogue, where one is near; both lists are long.
  std::string unknown_kind(const std::string& name) const {
    std::vector<std::string> names = kind_names();
    const std::vector<std::string> listed = catalogue_names();
    names.insert(names.end(), listed.begin(), listed.end());
    const std::string near = nearest(name, names);
    if (!near.empty()) {
      return "unknown device type '" + name + "' (did you mean '" + near + "'?)";
    }
    return "unknown device type '" + name + "' (neither declared in this file nor in the " +
           "catalogue of GPUs)";
  }

  enum class Inside { no, yes };
  Link read_link(const TomlValue& value, const std::string& name, Inside a_node = Inside::no) {
    TomlReader reader(value, name, file_, problems_);
    Link link;
    if (a_node == Inside::yes) {
      link.gather_bandwidth = reader.rate("gather_bandwidth", kRate).value_or(0);
    }
    link.bandwidth = reader.rate("bandwidth", kRate, Need::required).value_or(0);
    link.latency = reader.real("latency", kLatency).value_or(0);
    link.emulate = reader.boolean("emulate").value_or(false);
    reader.done();
    return link;
  }

  void read_links(TomlReader& top) {
    const TomlValue* value = top.table("link");
    TomlValue none;
    none.line = root_.line;
    TomlReader links(value != nullptr ? *value : none, "[link]", file_, problems_);
    const TomlValue* intra = links.table("intra_node");
    const TomlValue* inter = links.table("inter_node");
    if (intra != nullptr) {
      cluster_.intra_node = read_link(*intra, "[link.intra_node]", Inside::yes);
    } else if (!links.has("intra_node")) {
      top.problem(none.line,
                  "[link.intra_node] is missing (it connects a node's devices and its "
                  "parameter server). Add it with a bandwidth.");
    }
    if (inter != nullptr) {
      cluster_.inter_node = read_link(*inter, "[link.inter_node]");
    } else if (cluster_.nodes.size() > 1 && !links.has("inter_node")) {
      top.problem(none.line,
                  "[link.inter_node] is missing (the cluster has several nodes). "
                  "Add it with a bandwidth.");
    }
    for (const TomlValue* rule : links.tables("between")) read_between(*rule);
    links.done();
  }

  void read_between(const TomlValue& value) {
    TomlReader reader(value, "[[link.between]]", file_, problems_);
    LinkBetween rule;
    rule.kinds = reader.strings("kinds").value_or(std::vector<std::string>{});
    rule.nodes = reader.strings("nodes").value_or(std::vector<std::string>{});
    rule.link.bandwidth = reader.rate("bandwidth", kRate, Need::required).value_or(0);
    const auto latency = reader.real("latency", kLatency);
    rule.has_latency = latency.has_value();
    rule.link.latency = latency.value_or(0);
    rule.link.emulate = reader.boolean("emulate").value_or(false);
    reader.done();
    const auto& pair = rule.kinds.empty() ? rule.nodes : rule.kinds;
    if (rule.kinds.empty() == rule.nodes.empty() || pair.size() != 2) {
      reader.problem(value.line,
                     "[[link.between]] names no pair (it needs kinds or nodes, two of "
                     "them). Write kinds = [\"a\", \"b\"] or nodes = [\"n0\", \"n1\"].");
      return;
    }
    for (std::string& kind : rule.kinds) {
      if (const DeviceKind* known = find_kind(kind)) {
        kind = known->name;
      } else {
        reader.problem(reader.line_of("kinds"),
                       "[[link.between]]: " + unknown("device type", kind, kind_names()) +
                           ". Correct the name.");
      }
    }
    for (const std::string& node : rule.nodes) {
      if (cluster_.find_node(node)) continue;
      std::vector<std::string> names;
      for (const Node& known : cluster_.nodes) names.push_back(known.name);
      reader.problem(reader.line_of("nodes"),
                     "[[link.between]]: " + unknown("node", node, names) + ". Correct the name.");
    }
    for (const LinkBetween& other : cluster_.between) {
      if ((other.kinds == rule.kinds && other.nodes == rule.nodes) || reversed(other, rule)) {
        reader.problem(value.line, "[[link.between]] for " + pair[0] + " and " + pair[1] +
                                       " is given twice (a link has one rule). Remove one.");
      }
    }
    cluster_.between.push_back(std::move(rule));
  }

  static bool reversed(const LinkBetween& a, const LinkBetween& b) {
    return std::equal(a.kinds.rbegin(), a.kinds.rend(), b.kinds.begin(), b.kinds.end()) &&
           std::equal(a.nodes.rbegin(), a.nodes.rend(), b.nodes.begin(), b.nodes.end());
  }

  const DeviceKind* find_kind(const std::string& name) const {
    const auto found =
        std::find_if(cluster_.kinds.begin(), cluster_.kinds.end(),
                     [&](const DeviceKind& kind) { return same_device_type(kind.name, name); });
    return found == cluster_.kinds.end() ? nullptr : &*found;
  }

  std::vector<std::string> kind_names() const {
    std::vector<std::string> names;
    for (const DeviceKind& kind : cluster_.kinds) names.push_back(kind.name);
    return names;
  }

  const TomlValue& root_;
  const std::string& file_;
  Problems problems_;
  Cluster cluster_;
  std::set<std::string> node_names_;
  std::size_t devices_ = 0;
};

}  // namespace

Cluster parse_cluster(std::string_view text, const std::string& file) {
  const TomlValue root = parse_toml(text, file);
  check_file_kind(root, file, FileKind::cluster);
  return ClusterFile(root, file).read();
}

Cluster load_cluster(const std::filesystem::path& path) {
  return parse_cluster(read_file(path), path.string());
}

std::string place_of_kind(const std::filesystem::path& path, const std::string& kind) {
  const std::string file = path.string();
  const TomlValue root = parse_toml(read_file(path), file);
  const auto at = [&](int line) { return file + ":" + std::to_string(line); };
  for (const auto& [key, value] : root.entries) {
    if (key != "device") continue;
    for (const auto& [name, device] : value.entries) {
      if (name == kind) return at(device.line);
    }
  }
  // One of the catalogue's: the first node that has it.
  for (const auto& [key, value] : root.entries) {
    if (key != "node") continue;
    for (const TomlValue& node : value.items) {
      for (const auto& [name, devices] : node.entries) {
        for (const TomlValue& item : devices.items) {
          if (name == "devices" && item.text == kind) return at(item.line);
        }
      }
    }
  }
  return file;
}

}  // namespace hetpipe
