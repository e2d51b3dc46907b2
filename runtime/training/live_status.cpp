// SPDX-License-Identifier: Apache-2.0
#include "runtime/training/live_status.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/index.h"
#include "base/text.h"
#include "base/wall_clock.h"
#include "runtime/training/rank_facts.h"

namespace hetpipe {
namespace {

RunStatus status_at_start(const TrainJob& job, const WaveRules& rules, std::int64_t start_samples,
                          std::int64_t samples, const Roles& roles) {
  RunStatus status;
  const std::filesystem::path folder =
      std::filesystem::path(job.monitored.status).parent_path();  // the run directory
  status.run = folder.string();
  status.host = facts_of_this_rank().host;
  status.process = static_cast<int>(::getpid());
  status.started = wall_seconds();
  status.model = job.plan.model;
  status.system = job.plan.system;
  status.clock = job.time ? "simulated" : "real";
  status.dataset_size = job.dataset_size;
  status.start_samples = status.samples = start_samples;
  status.end_samples = start_samples + samples;
  status.waves = rules.start_wave();
  status.end_waves = rules.end_label();
  const std::int64_t minibatches = rules.minibatches_done(rules.start_minibatch());
  for (int i = 0; i < rules.workers(); ++i) {
    status.virtual_workers.push_back({.waves = rules.start_wave(), .minibatches = minibatches});
  }
  for (std::size_t r = 0; r < roles.of_rank.size(); ++r) {
    const auto& worker = roles.of_rank[r].worker;
    if (!worker) continue;
    status.ranks.push_back({.rank = static_cast<int>(r),
                            .device = to_string(worker->device),
                            .virtual_worker = worker->virtual_worker.value,
                            .stage = worker->stage().value,
                            .replica = worker->replica});
  }
  return status;
}

std::vector<int> places_in(const Roles& roles) {
  std::vector<int> places;
  int next = 0;
  for (const Role& role : roles.of_rank) places.push_back(role.worker ? next++ : -1);
  return places;
}

// That every rank of the virtual worker has done.
std::int64_t waves_of_all(const RunStatus& status, int virtual_worker) {
  std::optional<std::int64_t> least;
  for (const RankStatus& rank : status.ranks) {
    if (rank.virtual_worker != virtual_worker) continue;
    least = std::min(least.value_or(rank.waves), rank.waves);
  }
  return least.value_or(0);
}

std::int64_t consumed_at_start(const WaveRules& rules, const Sampler& sampler) {
  return sampler.consumed(rules.start_minibatch() - rules.first_minibatch());
}

}  // namespace

LiveStatus::LiveStatus(const TrainJob& job, const WaveRules& rules, const Sampler& sampler,
                       std::int64_t samples, const Roles& roles, Log& log)
    : rules_(rules),
      start_samples_(consumed_at_start(rules, sampler)),
      draws_(!job.monitored.tensorboard.empty()),
      place_(places_in(roles)),
      spent_(at(rules.workers())),
      newest_(at(rules.workers()), -1),
      monitor_(job.monitored, status_at_start(job, rules, start_samples_, samples, roles),
               [&log](const std::string& problem) { log.warning(problem); }) {
  if (start_samples_ > 0) monitor_.start_curves(start_samples_ + 1);
}

void LiveStatus::wave_reported(Rank from, const WaveReport& report) {
  monitor_.note([&](RunStatus& status) {
    RankStatus& rank = status.ranks[at(place_[at(from.value)])];
    ++rank.waves;
    rank.seconds += report.elapsed_seconds;
    rank.waited = {report.waits.bubble, report.waits.transfer, report.waits.server,
                   report.waits.data};
    rank.peak_memory = report.peak_memory;
    WorkerStatus& worker = status.virtual_workers[at(report.virtual_worker)];
    const std::int64_t done = rules_.start_wave() + waves_of_all(status, report.virtual_worker);
    if (done > worker.waves) {  // with this one
      worker.waves = done;
      worker.minibatches = rules_.minibatches_done(report.last_minibatch + 1);
    }
    Wave& newest = newest_[at(report.virtual_worker)];
    if (report.wave < newest) return;  // of a rank that is behind
    const bool first = report.wave > newest;
    newest = report.wave;
    worker.staleness_min =
        first ? report.staleness_min : std::min(worker.staleness_min, report.staleness_min);
    worker.staleness_max =
        first ? report.staleness_max : std::max(worker.staleness_max, report.staleness_max);
  });
}

void LiveStatus::wave_done(const WaveFigures& figures, const std::vector<SlowRanks::Slow>& slow) {
  std::vector<Scalar> curves;
  monitor_.note([&](RunStatus& status) {
    status.samples = start_samples_ + figures.samples;
    status.waves = figures.label;
    status.loss = figures.loss;
    status.accuracy = figures.accuracy;
    status.learning_rate = figures.learning_rate;
    status.samples_per_second = figures.samples_per_second;
    status.seconds_left = figures.seconds_left;
    for (RankStatus& rank : status.ranks) rank.slowdown = 1;
    for (const SlowRanks::Slow& one : slow) {
      status.ranks[at(place_[at(one.rank.value)])].slowdown = one.factor;
    }
    if (draws_) curves = curves_of(figures, status);
  });
  monitor_.add_to_curves(start_samples_ + figures.samples, curves);
}

// Waits as shares of the time since the wave before.
std::vector<Scalar> LiveStatus::curves_of(const WaveFigures& figures, const RunStatus& status) {
  std::vector<Scalar> curves{{"loss/train", figures.loss},
                             {"learning_rate", figures.learning_rate},
                             {"samples_per_second", figures.samples_per_second},
                             {"staleness/min", static_cast<double>(figures.staleness_min)},
                             {"staleness/max", static_cast<double>(figures.staleness_max)}};
  if (figures.accuracy) curves.push_back({"accuracy/train", *figures.accuracy});
  for (std::size_t i = 0; i < spent_.size(); ++i) {
    Spent now;
    now.waited = waited_by(status, static_cast<int>(i));
    for (const RankStatus& rank : status.ranks) {
      if (rank.virtual_worker == static_cast<int>(i)) now.seconds += rank.seconds;
    }
    const Spent before = spent_[i];
    if (now.seconds <= before.seconds) continue;
    for_each_field<WaitSeconds>([&](auto cause) {
      const double waited = now.waited.*cause.member - before.waited.*cause.member;
      curves.push_back({format("waits/virtual_worker_%zu/%s", i, std::string(cause.name).c_str()),
                        waited / (now.seconds - before.seconds)});
    });
    spent_[i] = now;
  }
  return curves;
}

void LiveStatus::evaluated(Label label, std::int64_t samples, double loss,
                           std::optional<double> accuracy) {
  monitor_.note([&](RunStatus& status) {
    status.test_loss = loss;
    status.test_accuracy = accuracy;
    status.test_waves = label;
  });
  std::vector<Scalar> curves{{"loss/test", loss}};
  if (accuracy) curves.push_back({"accuracy/test", *accuracy});
  monitor_.add_to_curves(samples, curves);
}

void LiveStatus::checkpoint_written(Label label, const std::string& path) {
  monitor_.note([&](RunStatus& status) {
    status.checkpoint = path;
    status.checkpoint_waves = label;
    status.checkpoint_time = wall_seconds();
  });
}

void LiveStatus::rank_done(Rank from, const RankReport& report) {
  monitor_.note([&](RunStatus& status) {
    RankStatus& rank = status.ranks[at(place_[at(from.value)])];
    rank.seconds = report.total_seconds - report.evaluate_seconds;
    rank.waited = {report.bubble_seconds, report.transfer_seconds, report.server_wait_seconds,
                   report.data_seconds};
    rank.peak_memory = report.peak_memory;
  });
}

void LiveStatus::stopping(Label label) {
  monitor_.note([&](RunStatus& status) {
    status.state = kStopping;
    status.end_waves = label;
  });
}

void LiveStatus::ended(const std::string& exit, ExitCode code) {
  monitor_.note([&](RunStatus& status) {
    status.state = kEnded;
    status.exit = exit;
    status.exit_code = static_cast<int>(code);
    status.seconds_left = 0;
  });
}

}  // namespace hetpipe
