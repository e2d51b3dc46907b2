// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "partitioner/plan/pipeline.h"
#include "partitioner/planners/explain_parts.h"
#include "partitioner/planners/search_smaller_pools.h"

namespace hetpipe {
namespace {

constexpr std::size_t kMostReplans = 12;
constexpr std::size_t kMostLinks = 16;

PlanRequest request_without(const ExplainedPlan& asked, const DeviceName& device) {
  PlanRequest request = asked.request;
  request.cluster = without_device(request.cluster, device);
  // The server stays where it is: a node that has become empty would attract it.
  if (asked.plan.server) request.server_nodes = asked.plan.server->nodes;
  return request;
}

}  // namespace

std::vector<std::string> idle_devices(const ExplainedPlan& asked) {
  const auto devices = devices_of(asked.plan);
  std::vector<std::string> names;
  for (const DeviceName& device : asked.request.cluster.devices()) {
    if (!devices.contains(device)) {
      names.push_back(to_string(device) + " " + asked.request.cluster.kind_of(device).name);
    }
  }
  return names;
}

// One device of each kind and node stands for the others.
std::vector<Alternative> devices_left_out(const ExplainedPlan& asked) {
  std::vector<Alternative> answers;
  const auto devices = devices_of(asked.plan);
  if (static_cast<int>(devices.size()) > kMostDevicesToLeaveOut || devices.size() < 2) {
    return answers;
  }
  std::set<std::pair<std::string, std::string>> seen;
  for (const DeviceName& device : devices) {
    const std::string& kind = asked.request.cluster.kind_of(device).name;
    if (answers.size() == kMostReplans || !seen.insert({device.node, kind}).second) continue;
    Alternative answer;
    answer.what = to_string(device) + " " + kind;
    try {
      const Plan plan = make_plan(request_without(asked, device));
      asked.answer(answer, plan, plan.predicted->throughput);
    } catch (const UserError& error) {
      const std::string& text = error.problems().front().text;
      answer.why_not = text.substr(0, text.find('\n'));
    }
    answers.push_back(std::move(answer));
  }
  std::stable_sort(answers.begin(), answers.end(), [](const auto& a, const auto& b) {
    return a.relative.value_or(-2) > b.relative.value_or(-2);
  });
  return answers;
}

std::vector<Alternative> faster_links(const ExplainedPlan& asked) {
  std::vector<Alternative> answers;
  const auto add = [&](const std::string& what, const auto& link_of) {
    Cluster cluster = asked.request.cluster;
    Link& link = link_of(cluster);
    if (link.bandwidth <= 0) return;
    link.bandwidth *= 2;
    Alternative answer{.what = what};
    asked.answer(answer, asked.plan,
                 simulate(asked.plan, cluster, asked.request.profile, kOnlySpeed).throughput);
    answers.push_back(std::move(answer));
  };
  add("within nodes", [](Cluster& c) -> Link& { return c.intra_node; });
  if (asked.request.cluster.nodes.size() > 1) {
    add("between nodes", [](Cluster& c) -> Link& { return c.inter_node; });
  }
  const std::size_t rules = std::min(asked.request.cluster.between.size(), kMostLinks);
  for (std::size_t i = 0; i < rules; ++i) {
    const LinkBetween& rule = asked.request.cluster.between[i];
    add("between " + join(rule.nodes.empty() ? rule.kinds : rule.nodes, " and "),
        [i](Cluster& c) -> Link& { return c.between[i].link; });
  }
  std::stable_sort(answers.begin(), answers.end(),
                   [](const auto& a, const auto& b) { return *a.relative > *b.relative; });
  return answers;
}

}  // namespace hetpipe
