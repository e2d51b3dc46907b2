// SPDX-License-Identifier: Apache-2.0
#include "launch/plan/answers.h"

#include <algorithm>
#include <cmath>

#include "base/json.h"
#include "base/text.h"

namespace hetpipe {
namespace {

constexpr std::size_t kMostCandidates = 8;
constexpr double kVisible = 5e-4;  // less prints as 0.0 %

std::string first_of(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

std::string epochs_text(const EpochsTime& time) {
  return format("%g epoch%s of %lld samples: %s at %.4g samples/s, without evaluations\n",
                time.epochs, time.epochs == 1 ? "" : "s", static_cast<long long>(time.dataset_size),
                format_seconds(time.seconds()).c_str(), time.throughput);
}

Json epochs_json(const EpochsTime& time) {
  return {
      {"epochs", time.epochs}, {"dataset_size", time.dataset_size}, {"seconds", time.seconds()}};
}

std::string largest_text(const LargestMinibatch& largest, const PlanRequest& request,
                         const Plan& plan) {
  std::string text = format("largest minibatch with these stages: %d samples", largest.minibatch);
  if (plan.virtual_workers.size() > 1) text += " of each virtual worker";
  text += format(" (now %d), at %.4g samples/s", plan.minibatch, largest.throughput);
  if (request.weighs_lateness()) text += format(", worth %.4g", largest.worth);
  return text + format(
                    "; with %d, stage %d of virtual worker %d would need %s more than %s (%s) has "
                    "for plans\n",
                    largest.next, largest.stage, largest.virtual_worker,
                    format_bytes(static_cast<double>(largest.missing_bytes)).c_str(),
                    to_string(largest.device).c_str(),
                    request.cluster.kind_of(largest.device).name.c_str());
}

Json largest_json(const LargestMinibatch& largest) {
  return {{"minibatch", largest.minibatch},
          {"throughput", largest.throughput},
          {"worth", largest.worth},
          {"next", largest.next},
          {"virtual_worker", largest.virtual_worker},
          {"stage", largest.stage},
          {"device", to_string(largest.device)},
          {"missing_bytes", largest.missing_bytes}};
}

std::string batched_text(const std::vector<BatchedPlan>& plans, const PlanRequest& request,
                         int samples) {
  const bool late = request.weighs_lateness();
  std::vector<std::string> columns{"system", "workers", "minibatch", "micro-batches",
                                   "Nm",     "D",       "devices",   "samples/s"};
  if (late) columns.emplace_back("worth, samples/s");
  Table table(columns);
  std::string failures;
  for (const BatchedPlan& one : plans) {
    std::vector<std::string> cells{one.system};
    if (one.plan) {
      const Plan& plan = *one.plan;
      const bool drained = traits(composition(plan).schedule).has_flush;
      cells.push_back(std::to_string(plan.virtual_workers.size()));
      cells.push_back(std::to_string(plan.minibatch));
      cells.push_back(std::to_string(plan.micro_batches));
      cells.push_back(drained ? "-" : std::to_string(plan.in_flight));
      cells.push_back(plan.server ? std::to_string(plan.server->clock_distance) : "-");
      cells.push_back(std::to_string(plan.worker_ranks()));
      cells.push_back(format("%.4g", one.throughput));
      if (late) cells.push_back(format("%.4g", one.worth));
    } else {
      failures += one.system + ": " + first_of(one.why_not) + "\n";
    }
    cells.resize(columns.size(), "-");
    table.add(cells);
  }
  return format("plans with a global batch of %d\n", samples) + table.text() + failures;
}

Json batched_json(const std::vector<BatchedPlan>& plans, int samples) {
  Json json{{"samples", samples}, {"systems", Json::array()}};
  for (const BatchedPlan& one : plans) {
    Json entry{{"system", one.system}};
    if (one.plan) {
      entry["virtual_workers"] = one.plan->virtual_workers.size();
      entry["minibatch"] = one.plan->minibatch;
      entry["micro_batches"] = one.plan->micro_batches;
      entry["in_flight"] = one.plan->in_flight;
      if (one.plan->server) entry["clock_distance"] = one.plan->server->clock_distance;
      entry["devices"] = one.plan->worker_ranks();
      entry["throughput"] = one.throughput;
      entry["worth"] = one.worth;
    } else {
      entry["why_not"] = one.why_not;
    }
    json["systems"].push_back(std::move(entry));
  }
  return json;
}

std::string search_text(const SearchResult& result, const Cluster& cluster) {
  const bool late = std::any_of(result.considered.begin(), result.considered.end(),
                                [](const auto& of) { return of.worth < of.throughput; });
  std::vector<std::string> columns{"considered", "plan", "minibatch", "samples/s"};
  if (late) columns.emplace_back("worth, samples/s");
  Table table(columns);
  const std::size_t shown = std::min(result.considered.size(), kMostCandidates);
  for (std::size_t i = 0; i < shown; ++i) {
    const SearchCandidate& candidate = result.considered[i];
    const bool runs = candidate.throughput > 0;
    std::vector<std::string> cells{candidate.origin,
                                   runs ? candidate.what : first_line(candidate.why_not),
                                   runs ? std::to_string(candidate.minibatch) : "-",
                                   runs ? format("%.4g", candidate.throughput) : "-"};
    if (late) cells.push_back(runs ? format("%.4g", candidate.worth) : "-");
    table.add(cells);
  }
  std::string text = table.text();
  if (shown < result.considered.size()) {
    text += format("and %zu more\n", result.considered.size() - shown);
  }
  text += result.exact ? format("all plans were compared (%lld simulations)\n",
                                static_cast<long long>(result.simulations))
                       : format("%lld simulations; no plan can exceed %.4g samples/s\n",
                                static_cast<long long>(result.simulations), result.bound);
  const double chosen = result.plan.predicted ? result.plan.predicted->throughput : 0;
  if (shown > 0 && result.considered.front().worth > result.worth * (1 + 1e-6)) {
    text += format(
        "chosen: the plan of %.4g samples/s, the least stale of those within 0.5 %% of the "
        "best\n",
        chosen);
  }
  for (const LeftOut& left : result.left_out) {
    text += format("left idle: %s %s", to_string(left.device).c_str(),
                   cluster.kind_of(left.device).name.c_str());
    if (!left.change) {
      text += " (no plan that uses it was found)\n";
    } else if (std::abs(*left.change) < kVisible) {
      text += " (using it: no change)\n";
    } else {
      text += format(" (using it: %+.1f %%)\n", 100 * *left.change);
    }
  }
  return text;
}

}  // namespace hetpipe
