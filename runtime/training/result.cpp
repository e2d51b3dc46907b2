// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <tuple>

#include "base/hash.h"
#include "base/index.h"
#include "base/json.h"
#include "runtime/training/run.h"

namespace hetpipe {
namespace {

Json json_of(const Reporter::Evaluation& evaluation) {
  return {{"label", evaluation.label},
          {"samples", evaluation.samples},
          {"seconds", evaluation.seconds},
          {"test_loss", evaluation.loss},
          {"test_accuracy", evaluation.accuracy}};
}

Json memory_of(const RankReport& r) {
  Json kinds = Json::object();
  for (int kind = 0; kind < kMemoryKinds; ++kind) {
    kinds[to_string(static_cast<MemoryKind>(kind))] = r.peak_of_kind[at(kind)];
  }
  return kinds;
}

Json json_of(const RankReport& r, const Plan& plan) {
  const PlanStage& stage = plan.virtual_workers[at(r.virtual_worker)].stages[at(r.stage)];
  return {{"virtual_worker", r.virtual_worker},
          {"stage", r.stage},
          {"replica", r.replica},
          {"device", to_string(stage.devices[at(r.replica)])},
          {"minibatches", r.minibatches},
          {"peak_memory", r.peak_memory},
          {"memory", memory_of(r)},
          {"seconds",
           {{"total", r.total_seconds},
            {"forward", r.forward_seconds},
            {"backward", r.backward_seconds},
            {"update", r.update_seconds},
            {"transfer", r.transfer_seconds},
            {"bubble", r.bubble_seconds},
            {"server_wait", r.server_wait_seconds},
            {"data", r.data_seconds},
            {"unfed", r.unfed_seconds},
            {"evaluation", r.evaluate_seconds}}},
          {"bytes",
           {{"forward", r.bytes_forward},
            {"backward", r.bytes_backward},
            {"pushed", r.bytes_pushed},
            {"pulled", r.bytes_pulled},
            {"summed", r.bytes_summed},
            {"evaluation", r.bytes_evaluation},
            {"queued", r.bytes_queued}}},
          {"messages",
           {{"forward", r.messages_forward},
            {"backward", r.messages_backward},
            {"pushes", r.pushes},
            {"pulls", r.pulls},
            {"servers_in_reach", r.servers_in_reach},
            {"summed", r.messages_summed}}}};
}

Json target_of(const TrainJob& job, const Reporter::Outcome& outcome) {
  if (!job.target_accuracy) return nullptr;
  Json target{{"accuracy", *job.target_accuracy}, {"reached", outcome.target.has_value()}};
  if (!outcome.target) return target;
  const Json evaluation = json_of(*outcome.target);
  for (const auto& [key, value] : evaluation.members()) target[key] = value;
  return target;
}

}  // namespace

std::string exit_word(const RunEnd& end) {
  switch (end.code) {
    case ExitCode::numerical:
      return "numerical";
    case ExitCode::system:
      return "system";
    case ExitCode::stopped:
      return "stopped";
    default:
      return end.outcome.target ? "target-accuracy" : "finished";
  }
}

std::string result_json(const TrainJob& job, const RunEnd& end) {
  const Reporter::Outcome& outcome = end.outcome;
  std::vector<RankReport> ranks = outcome.ranks;
  std::sort(ranks.begin(), ranks.end(), [](const RankReport& a, const RankReport& b) {
    return std::tuple(a.virtual_worker, a.stage, a.replica) <
           std::tuple(b.virtual_worker, b.stage, b.replica);
  });
  Json json{{"format", 1},
            {"exit", exit_word(end)},
            {"exit_code", static_cast<int>(end.code)},
            {"system", job.plan.system},
            {"model", job.plan.model},
            {"plan_hash", to_hex(plan_hash(job.plan))},
            {"seed", job.seed},
            {"optimizer", job.optimizer.name},
            {"learning_rate", job.optimizer.learning_rate},
            {"clock", job.time ? "simulated" : "real"},
            {"time_of", nullptr},
            {"ema", nullptr},
            {"dataset_size", job.dataset_size},
            {"start_samples", job.start.consumed},
            {"samples", outcome.samples},
            {"seconds", outcome.training_seconds()},
            {"evaluation_seconds", outcome.evaluation_seconds},
            {"throughput", outcome.throughput()},
            {"predicted_throughput", nullptr},
            {"test_loss", outcome.test_loss},
            {"test_accuracy", outcome.test_accuracy},
            {"time_to_target", nullptr},
            {"target", target_of(job, outcome)},
            {"staleness", {{"min", outcome.staleness_min}, {"max", outcome.staleness_max}}},
            {"checkpoint", outcome.checkpoint}};
  if (job.plan.predicted) json["predicted_throughput"] = job.plan.predicted->throughput;
  if (job.time && !job.time->of.empty()) json["time_of"] = job.time->of;
  if (optimizer_at_servers(job.plan)) json["stage_rate"] = job.stage_rate;
  if (job.optimizer.ema > 0) json["ema"] = job.optimizer.ema;
  if (outcome.target) json["time_to_target"] = outcome.target->seconds;
  json["evaluations"] = Json::array();
  json["ranks"] = Json::array();
  for (const auto& evaluation : outcome.evaluations) {
    json["evaluations"].push_back(json_of(evaluation));
  }
  for (const RankReport& report : ranks) json["ranks"].push_back(json_of(report, job.plan));
  return json.dump(2) + "\n";
}

}  // namespace hetpipe
