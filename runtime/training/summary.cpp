// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <tuple>

#include "base/index.h"
#include "base/text.h"
#include "runtime/training/reporter.h"

namespace hetpipe {
namespace {

std::string milliseconds(double seconds) { return format("%.2f", seconds * 1e3); }
std::string percent(double part, double whole) {
  return whole > 0 ? format("%.1f", 100 * part / whole) : "-";
}

// "predicted -> measured" in ms; a dash where nothing was predicted.
std::string against(const std::optional<StagePrediction>& predicted,
                    double StagePrediction::*seconds, double measured) {
  return (predicted ? milliseconds((*predicted).*seconds) : std::string("-")) + " / " +
         milliseconds(measured);
}

}  // namespace

std::string target_text(const TrainJob& job, const Reporter::Outcome& outcome) {
  const double wanted = 100 * job.target_accuracy.value_or(0);
  if (!outcome.target) {
    double best = 0;
    for (const auto& evaluation : outcome.evaluations) {
      best = std::max(best, evaluation.accuracy.value_or(0));
    }
    return format(
        "target: %g %% test accuracy was not reached (the best of %zu evaluations: %.2f %%)",
        wanted, outcome.evaluations.size(), 100 * best);
  }
  const auto samples = static_cast<double>(outcome.target->samples);
  return format(
      "target: %g %% test accuracy reached after wave %lld (%.2f %%) in %s of training, "
      "without evaluation; %lld samples, %.2f epochs",
      wanted, static_cast<long long>(outcome.target->label),
      100 * outcome.target->accuracy.value_or(0), format_seconds(outcome.target->seconds).c_str(),
      static_cast<long long>(outcome.target->samples),
      samples / static_cast<double>(job.dataset_size));
}

std::string summary(const TrainJob& job, const Reporter::Outcome& outcome) {
  std::vector<RankReport> ranks = outcome.ranks;
  std::sort(ranks.begin(), ranks.end(), [](const RankReport& a, const RankReport& b) {
    return std::tuple(a.virtual_worker, a.stage, a.replica) <
           std::tuple(b.virtual_worker, b.stage, b.replica);
  });
  const std::string of = job.time ? " ms pred / sim" : " ms pred / meas";
  Table table({"vw", "stage", "device", "F" + of, "B" + of, "compute %", "bubble %", "transfer %",
               "sync %", "other %", "peak memory", "overruns"});
  std::int64_t actions = 0;
  std::int64_t overruns = 0;
  double overrun_seconds = 0;
  double late = 0;
  double all = 0;
  double compute = 0, bubble = 0, transfer = 0, server = 0;
  for (const RankReport& r : ranks) {
    const PlanStage& stage = job.plan.virtual_workers[at(r.virtual_worker)].stages[at(r.stage)];
    const double n = static_cast<double>(std::max<std::int64_t>(r.minibatches, 1)) *
                     job.plan.micro_batches;  // predictions are of a micro-batch
    const double total = r.total_seconds - r.evaluate_seconds;
    const double busy = r.forward_seconds + r.backward_seconds + r.update_seconds;
    // Waits overlap with the ends of modelled actions by what it takes to wake up: not below 0.
    const double other =
        std::max(0.0, total - busy - r.bubble_seconds - r.transfer_seconds - r.server_wait_seconds);
    table.add({std::to_string(r.virtual_worker), std::to_string(r.stage),
               to_string(stage.devices[at(r.replica)]),
               against(stage.predicted, &StagePrediction::forward_seconds, r.forward_seconds / n),
               against(stage.predicted, &StagePrediction::backward_seconds, r.backward_seconds / n),
               percent(busy, total), percent(r.bubble_seconds, total),
               percent(r.transfer_seconds, total), percent(r.server_wait_seconds, total),
               percent(other, total), format_bytes(static_cast<double>(r.peak_memory)),
               r.paced_actions > 0 ? format("%lld of %lld", static_cast<long long>(r.overruns),
                                            static_cast<long long>(r.paced_actions))
                                   : "-"});
    actions += r.paced_actions;
    overruns += r.overruns;
    overrun_seconds += r.overrun_seconds;
    late += r.late_seconds;
    all += total;
    compute += busy;
    bubble += r.bubble_seconds;
    transfer += r.transfer_seconds;
    server += r.server_wait_seconds;
  }
  std::string text = "\nsummary: per stage, predicted against measured, without evaluation\n";
  if (job.time) {
    text = "\nsummary: times are simulated" +
           (job.time->of.empty()
                ? std::string()
                : ", of plan " + job.time->of + " (model " + job.time->profile.model + ")") +
           ", not measured; per stage, without evaluation\n";
  }
  text += table.text("  ");

  const double throughput = outcome.throughput();
  text += format("throughput: %.0f samples/s", throughput);
  const bool of_another = job.time && !job.time->of.empty();
  if (!of_another && job.plan.predicted && job.plan.predicted->throughput > 0) {
    text += format(" (predicted %.0f: %+.1f %%)", job.plan.predicted->throughput,
                   100 * (throughput / job.plan.predicted->throughput - 1));
  }
  text += format("; %lld samples in %s, and %s for evaluation\n",
                 static_cast<long long>(outcome.samples),
                 format_seconds(outcome.training_seconds()).c_str(),
                 format_seconds(outcome.evaluation_seconds).c_str());
  text += format(
      "where the workers' time went: compute %s %%, bubble %s %%, transfer %s %%, "
      "synchronisation %s %%\n",
      percent(compute, all).c_str(), percent(bubble, all).c_str(), percent(transfer, all).c_str(),
      percent(server, all).c_str());
  if (actions > 0) {
    text += format(
        "emulation: %lld of %lld actions overran their modelled time (%s %%), by %s in all; "
        "modelled "
        "ends were missed by %s in all (this machine was busy with other work)\n",
        static_cast<long long>(overruns), static_cast<long long>(actions),
        format("%.2f", 100.0 * static_cast<double>(overruns) / static_cast<double>(actions))
            .c_str(),
        format_seconds(overrun_seconds).c_str(), format_seconds(late).c_str());
  }
  if (outcome.test_accuracy) {
    text += format("test accuracy %.2f %%, test loss %.4f\n", 100 * *outcome.test_accuracy,
                   *outcome.test_loss);
  } else if (outcome.test_loss) {
    text += format("test loss %.4f\n", *outcome.test_loss);
  }
  if (job.target_accuracy) text += target_text(job, outcome) + "\n";
  if (!outcome.checkpoint.empty()) text += "checkpoint: " + outcome.checkpoint + "\n";
  return text;
}

}  // namespace hetpipe
