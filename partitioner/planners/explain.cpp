// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/explain.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "partitioner/cost/memory.h"
#include "partitioner/cost/stage_cost.h"
#include "partitioner/planners/explain_text.h"
#include "partitioner/simulator/simulate.h"

namespace hetpipe {
namespace {

constexpr double kGrows = 0.01;  // less than this is not worth another minibatch in flight
constexpr std::size_t kMostReplans = 12;
constexpr std::size_t kMostLinks = 16;

// A stage whose ledger is larger than its device's memory, the worst first.
struct Overflow {
  int virtual_worker = 0;
  int stage = 0;
  std::int64_t missing = 0;
};

class Explainer {
 public:
  Explainer(const PlanRequest& request, const Plan& plan)
      : request_(request),
        plan_(plan),
        parts_(composition(plan)),
        now_(simulate(plan, request.cluster, request.profile)) {}

  Explanation run() {
    Explanation result;
    result.bottleneck = bottleneck();
    result.moves = moves(result.bottleneck);
    result.depth = has_flush(parts_.schedule) ? more_micro_batches() : more_in_flight();
    result.leave_out = leave_out();
    result.links = faster_links();
    result.idle = idle();
    result.sentences = sentences(result, request_, plan_);
    return result;
  }

 private:
  std::optional<Overflow> overflow(const Plan& plan) const {
    std::optional<Overflow> worst;
    for (std::size_t vw = 0; vw < plan.virtual_workers.size(); ++vw) {
      const auto& stages = plan.virtual_workers[vw].stages;
      for (std::size_t k = 0; k < stages.size(); ++k) {
        const Overflow here{static_cast<int>(vw), static_cast<int>(k), 0};
        const std::int64_t total =
            stage_ledger(plan, request_.cluster, request_.profile,
                         VirtualWorkerId{here.virtual_worker}, StageId{here.stage})
                .total();
        for (const DeviceName& device : stages[k].devices) {
          const std::int64_t missing = total - request_.cluster.kind_of(device).memory;
          if (missing > 0 && (!worst || missing > worst->missing)) {
            worst = here;
            worst->missing = missing;
          }
        }
      }
    }
    return worst;
  }

  double relative(double throughput) const { return throughput / now_.throughput - 1; }

  // What a changed plan gives on the same pool.
  Alternative tried(std::string what, const Plan& plan) const {
    Alternative answer;
    answer.what = std::move(what);
    try {
      check_plan(plan, "plan", &request_.cluster, static_cast<int>(request_.profile.layers.size()));
      if (const auto over = overflow(plan)) {
        answer.why_not = format(
            "stage %d of virtual worker %d would need %s more memory than there is", over->stage,
            over->virtual_worker, format_bytes(static_cast<double>(over->missing)).c_str());
        return answer;
      }
      answer.relative = relative(simulate(plan, request_.cluster, request_.profile).throughput);
    } catch (const UserError& error) {
      answer.why_not = error.problems().front().text;
    }
    return answer;
  }

  Bottleneck bottleneck() const {
    Bottleneck worst;
    double longest = -1;
    for (std::size_t vw = 0; vw < plan_.virtual_workers.size(); ++vw) {
      const VirtualWorkerId id{static_cast<int>(vw)};
      const auto costs = stage_costs(plan_, request_.cluster, request_.profile, id);
      for (std::size_t k = 0; k < costs.size(); ++k) {
        if (costs[k].total() <= longest) continue;
        longest = costs[k].total();
        worst.virtual_worker = id.value;
        worst.stage = static_cast<int>(k);
        worst.device = plan_.virtual_workers[vw].stages[k].devices.front();
        worst.compute_seconds = costs[k].compute();
        worst.receive_seconds = costs[k].receive();
      }
    }
    for (const SimulatedStage& stage : now_.stages) {
      if (stage.device != worst.device) continue;
      worst.busy = stage.busy;
      worst.communication = stage.communication;
      worst.bubble = stage.bubble;
    }
    const double most = std::max({worst.busy, worst.communication, worst.bubble});
    worst.limited_by = most == worst.busy            ? "compute"
                       : most == worst.communication ? "communication"
                                                     : "bubble";
    return worst;
  }

  // The same stages on the same kinds: what is moved in one is moved in all, else the others would
  // hide what it gives.
  bool alike(const PlanVirtualWorker& a, const PlanVirtualWorker& b) const {
    if (a.minibatch != b.minibatch || a.stages.size() != b.stages.size()) return false;
    for (std::size_t k = 0; k < a.stages.size(); ++k) {
      const PlanStage& x = a.stages[k];
      const PlanStage& y = b.stages[k];
      if (x.end_layer != y.end_layer || x.devices.size() != y.devices.size()) return false;
      for (std::size_t r = 0; r < x.devices.size(); ++r) {
        if (request_.cluster.kind_of(x.devices[r]).name !=
            request_.cluster.kind_of(y.devices[r]).name) {
          return false;
        }
      }
    }
    return true;
  }

  std::vector<Alternative> moves(const Bottleneck& at) const {
    std::vector<Alternative> answers;
    const auto& from = plan_.virtual_workers[static_cast<std::size_t>(at.virtual_worker)];
    const auto k = static_cast<std::size_t>(at.stage);
    const PlanStage& stage = from.stages[k];
    for (const int step : {-1, 1}) {
      const int to = at.stage + step;
      if (to < 0 || to >= static_cast<int>(from.stages.size())) continue;
      const int layer = step < 0 ? stage.first_layer : stage.end_layer - 1;
      const std::string what = format(
          "move layer %d (%s) from stage %d to stage %d", layer,
          request_.profile.layers[static_cast<std::size_t>(layer)].name.c_str(), at.stage, to);
      if (stage.end_layer - stage.first_layer == 1) {
        answers.push_back({what, std::nullopt, "it is the stage's only layer"});
        continue;
      }
      Plan moved = plan_;
      for (PlanVirtualWorker& vw : moved.virtual_workers) {
        if (!alike(vw, from)) continue;
        if (step < 0) {
          ++vw.stages[k - 1].end_layer;
          ++vw.stages[k].first_layer;
        } else {
          --vw.stages[k].end_layer;
          --vw.stages[k + 1].first_layer;
        }
      }
      answers.push_back(splits_shared(moved) ? Alternative{what, std::nullopt,
                                                           "layers with shared parameters would "
                                                           "stand in two stages"}
                                             : tried(what, moved));
    }
    return answers;
  }

  // Under schedules without a flush there is no moment at which gradients of two stages are added.
  bool splits_shared(const Plan& plan) const {
    if (has_flush(parts_.schedule)) return false;
    const auto& layers = request_.profile.layers;
    for (const PlanVirtualWorker& vw : plan.virtual_workers) {
      std::map<std::string, std::size_t> stage_of;  // of the owner of parameters
      for (std::size_t k = 0; k < vw.stages.size(); ++k) {
        for (int l = vw.stages[k].first_layer; l < vw.stages[k].end_layer; ++l) {
          const ProfileLayer& layer = layers[static_cast<std::size_t>(l)];
          if (layer.shares.empty()) {
            stage_of[layer.name] = k;
          } else if (stage_of.contains(layer.shares) && stage_of[layer.shares] != k) {
            return true;
          }
        }
      }
    }
    return false;
  }

  static DepthLimit limit_of(const char* what, int now, int tried) {
    DepthLimit limit;
    limit.what = what;
    limit.now = now;
    limit.tried = tried;
    return limit;
  }

  DepthLimit more_in_flight() const {
    Plan deeper = plan_;
    ++deeper.in_flight;
    return depth(limit_of("Nm", plan_.in_flight, deeper.in_flight), deeper);
  }

  DepthLimit more_micro_batches() const {
    Plan finer = plan_;
    finer.micro_batches *= 2;
    DepthLimit limit = limit_of("micro-batches", plan_.micro_batches, finer.micro_batches);
    for (std::size_t vw = 0; vw < plan_.virtual_workers.size(); ++vw) {
      const int minibatch = plan_.minibatch_of(VirtualWorkerId{static_cast<int>(vw)});
      if (minibatch % finer.micro_batches == 0) continue;
      limit.why_not = format("a minibatch of %d does not divide into them", minibatch);
      return limit;
    }
    for (PlanVirtualWorker& vw : finer.virtual_workers) {
      for (PlanStage& stage : vw.stages) {
        const bool odd = std::any_of(stage.shares.begin(), stage.shares.end(),
                                     [](int share) { return share % 2 != 0; });
        if (odd) {
          limit.why_not = "a replica's share does not halve";
          return limit;
        }
        for (int& share : stage.shares) share /= 2;
      }
    }
    return depth(limit, finer);
  }

  DepthLimit depth(DepthLimit limit, const Plan& deeper) const {
    if (const auto over = overflow(deeper)) {
      limit.limited_by = "memory";
      limit.virtual_worker = over->virtual_worker;
      limit.stage = over->stage;
      limit.missing_bytes = over->missing;
      return limit;
    }
    const Alternative answer = tried("", deeper);
    limit.relative = answer.relative;
    limit.why_not = answer.why_not;
    if (answer.relative && *answer.relative < kGrows) limit.limited_by = "throughput";
    return limit;
  }

  std::set<DeviceName> used() const {
    std::set<DeviceName> devices;
    for (const PlanVirtualWorker& vw : plan_.virtual_workers) {
      for (const PlanStage& stage : vw.stages) {
        devices.insert(stage.devices.begin(), stage.devices.end());
      }
    }
    return devices;
  }

  std::vector<std::string> idle() const {
    const auto devices = used();
    std::vector<std::string> names;
    for (const DeviceName& device : request_.cluster.devices()) {
      if (!devices.contains(device)) {
        names.push_back(to_string(device) + " " + request_.cluster.kind_of(device).name);
      }
    }
    return names;
  }

  // One device of each kind and node stands for the others.
  std::vector<Alternative> leave_out() const {
    std::vector<Alternative> answers;
    const auto devices = used();
    if (static_cast<int>(devices.size()) > kMostDevicesToLeaveOut || devices.size() < 2) {
      return answers;
    }
    std::set<std::pair<std::string, std::string>> seen;
    for (const DeviceName& device : devices) {
      const std::string& kind = request_.cluster.kind_of(device).name;
      if (answers.size() == kMostReplans || !seen.insert({device.node, kind}).second) continue;
      Alternative answer;
      answer.what = to_string(device) + " " + kind;
      try {
        const Plan plan = make_plan(request_without(device));
        answer.relative = relative(plan.predicted->throughput);
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

  PlanRequest request_without(const DeviceName& device) const {
    PlanRequest request = request_;
    Cluster& cluster = request.cluster;
    const auto id = static_cast<std::size_t>(cluster.find_node(device.node)->value);
    Node& node = cluster.nodes[id];
    node.kinds.erase(node.kinds.begin() + device.index);
    // The server stays where it is: a node that has become empty would attract it.
    if (plan_.server) request.server_nodes = plan_.server->nodes;
    return request;
  }

  std::vector<Alternative> faster_links() const {
    std::vector<Alternative> answers;
    const auto add = [&](const std::string& what, const auto& link_of) {
      Cluster cluster = request_.cluster;
      Link& link = link_of(cluster);
      if (link.bandwidth <= 0) return;
      link.bandwidth *= 2;
      answers.push_back(
          {what, relative(simulate(plan_, cluster, request_.profile).throughput), ""});
    };
    add("within nodes", [](Cluster& c) -> Link& { return c.intra_node; });
    if (request_.cluster.nodes.size() > 1) {
      add("between nodes", [](Cluster& c) -> Link& { return c.inter_node; });
    }
    const std::size_t rules = std::min(request_.cluster.between.size(), kMostLinks);
    for (std::size_t i = 0; i < rules; ++i) {
      const LinkBetween& rule = request_.cluster.between[i];
      add("between " + join(rule.nodes.empty() ? rule.kinds : rule.nodes, " and "),
          [i](Cluster& c) -> Link& { return c.between[i].link; });
    }
    std::stable_sort(answers.begin(), answers.end(),
                     [](const auto& a, const auto& b) { return *a.relative > *b.relative; });
    return answers;
  }

  const PlanRequest& request_;
  const Plan& plan_;
  System parts_;
  Simulation now_;
};

}  // namespace

Explanation explain(const PlanRequest& request, const Plan& plan) {
  return Explainer(request, plan).run();
}

}  // namespace hetpipe
