// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/index.h"
#include "base/markup.h"
#include "base/text.h"
#include "launch/report/html.h"
#include "launch/report/panels.h"
#include "partitioner/plan/pipeline.h"
#include "partitioner/plan/system.h"

namespace hetpipe {
namespace {

std::string share_bar(const DeviceTime& time) {
  std::string html = "<div class=\"shares\" aria-hidden=\"true\">";
  for (const TimePart& part : kTimeParts) {
    const double share = time.total > 0 ? part.seconds(time) / time.total : 0;
    if (share < 5e-4) continue;
    html += format("<i class=\"%s\" style=\"flex-grow:%.4f\"></i>", part.look, share);
  }
  return html + "</div>";
}

// Of a device with a stage: what it did, and what it waited for most.
std::string work_of(const PanelRun& of, const DeviceTime& time) {
  const PlanVirtualWorker& vw = of.run.plan.virtual_workers[at(time.virtual_worker)];
  std::string html = format("<span class=\"vw\">virtual worker %d, stage %d</span>",
                            time.virtual_worker, time.stage);
  const int positions = pipeline_of(vw, composition(of.run.plan).schedule).positions;
  for (std::size_t k = at(time.stage); k < vw.stages.size(); k += at(positions)) {
    html += format("<span>layers %d to %d</span>", vw.stages[k].first_layer,
                   vw.stages[k].end_layer - 1);
  }
  html += share_bar(time);
  if (time.total <= 0) return html;
  const TimePart& wait = largest_wait(time);
  return html + "<span>computed " + html_percent(time.compute() / time.total) + "</span><span>" +
         markup_text(std::string(wait.name)) + " " + html_percent(wait.seconds(time) / time.total) +
         "</span>";
}

std::string device_card(const PanelRun& of, const DeviceName& device) {
  const std::string name = to_string(device);
  std::string html;
  const DeviceTime* own = nullptr;
  for (const DeviceTime& time : of.times) {
    if (time.device == name) own = &time;
  }
  const char* look = own == nullptr ? "idle" : largest_wait(*own).look;
  html += format("<li class=\"device w-%s\"><strong>", look) + markup_text(name) + "</strong>";
  if (of.run.cluster) {
    const DeviceKind& kind = of.run.cluster->kind_of(device);
    html += "<span>" + markup_text(kind.name) + (kind.emulate ? ", emulated" : "") + ", " +
            html_bytes(kind.memory) + "</span>";
  }
  return html + (own == nullptr ? "<span>not used</span>" : work_of(of, *own)) + "</li>\n";
}

std::string servers_on(const PanelRun& of, const std::string& node) {
  if (!of.run.plan.server) return {};
  std::string html;
  const PlanServer& server = *of.run.plan.server;
  for (std::size_t shard = 0; shard < server.nodes.size(); ++shard) {
    if (server.nodes[shard] != node) continue;
    html += format(
        "<li class=\"device server\"><strong>parameter server</strong><span>shard %zu of "
        "%zu%s</span></li>\n",
        shard, server.nodes.size(), server.hosted ? ", inside a worker's rank" : "");
  }
  return html;
}

struct NodeCard {
  std::string name;
  std::vector<DeviceName> devices;
};

// Of the cluster; without one, those of the plan.
std::vector<NodeCard> nodes_of(const PanelRun& of) {
  std::vector<NodeCard> nodes;
  const auto node_named = [&](const std::string& name) -> NodeCard& {
    for (NodeCard& node : nodes) {
      if (node.name == name) return node;
    }
    return nodes.emplace_back(NodeCard{name, {}});
  };
  if (of.run.cluster) {
    for (const Node& node : of.run.cluster->nodes) {
      NodeCard& own = node_named(node.name);
      for (std::size_t i = 0; i < node.kinds.size(); ++i) {
        own.devices.push_back({node.name, static_cast<int>(i)});
      }
    }
  } else {
    for (const DeviceTime& time : of.times) {
      if (const auto name = try_parse_device(time.device))
        node_named(name->node).devices.push_back(*name);
    }
  }
  if (of.run.plan.server) {
    for (const std::string& node : of.run.plan.server->nodes) node_named(node);
  }
  return nodes;
}

void add_link(const std::string& what, const Link& link, HtmlTable& table) {
  table.add({markup_text(what), html_bandwidth(link.bandwidth), html_seconds(link.latency),
             link.emulate ? "emulated" : "as they are"});
}

std::string links_table(const PanelRun& of) {
  if (!of.run.cluster) return {};
  HtmlTable table("Links of the cluster file, each direction",
                  {"between", "bandwidth", "latency", ""});
  add_link("devices of one node", of.run.cluster->intra_node, table);
  if (of.run.cluster->nodes.size() > 1) add_link("nodes", of.run.cluster->inter_node, table);
  for (const LinkBetween& rule : of.run.cluster->between) {
    add_link(join(rule.nodes.empty() ? rule.kinds : rule.nodes, " and "), rule.link, table);
  }
  return table.html();
}

}  // namespace

std::string pool_panel(const PanelRun& of) {
  std::string html = "<p class=\"legend\">";
  for (const TimePart& part : kTimeParts) {
    html += format("<span><i class=\"%s\"></i>%s</span> ", part.look, part.name);
  }
  html += "</p>\n";
  html += html_paragraph(
      "A device's edge has the colour of what took most of its time beside computing.");
  html += "<ul class=\"pool\">\n";
  for (const NodeCard& node : nodes_of(of)) {
    html += "<li class=\"node\"><strong>node " + markup_text(node.name) + "</strong>\n<ul>\n";
    std::string inside;
    for (const DeviceName& device : node.devices) inside += device_card(of, device);
    inside += servers_on(of, node.name);
    html += (inside.empty() ? "<li class=\"device w-idle\"><span>no device</span></li>" : inside) +
            "</ul></li>\n";
  }
  html += "</ul>\n" + links_table(of);
  return html_section(of.id + "-pool", of.level, "The pool", html);
}

}  // namespace hetpipe
