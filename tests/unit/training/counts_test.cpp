// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "base/index.h"
#include "runtime/training/job.h"

// What a training has done, counted over runs on plans of all kinds.
namespace hetpipe {
namespace counts_test {

// A run of the training.
struct Leg {
  std::string system;
  std::vector<int> minibatches;  // samples, by virtual worker
  int in_flight;
  Label waves;  // that it plays before the next one takes over
};

constexpr std::int64_t kEnd = 900;  // samples

TrainJob job_of(const Leg& leg) {
  TrainJob job;
  job.plan.system = leg.system;
  job.plan.in_flight = leg.in_flight;
  for (const int minibatch : leg.minibatches) {
    PlanVirtualWorker& vw = job.plan.virtual_workers.emplace_back();
    vw.minibatch = minibatch;
    vw.stages.emplace_back().devices = {{"n0", static_cast<int>(job.plan.virtual_workers.size())}};
  }
  if (has_waves(job.plan)) {
    job.plan.server.emplace();
    job.plan.server->nodes = {"n0"};
  }
  job.dataset_size = 100;
  job.end_position = kEnd;
  return job;
}

// The definition: samples are dealt out minibatch by minibatch, and each one is counted.
struct Dealt {
  std::int64_t samples = 0;
  std::vector<std::int64_t> of_worker;  // minibatches in this run
  std::int64_t minibatches = 0;
  std::int64_t waves_with_samples = 0;

  void deal_wave(const Leg& leg) {
    of_worker.resize(leg.minibatches.size());
    if (samples < kEnd) ++waves_with_samples;
    for (int round = 0; round < leg.in_flight; ++round) {
      for (std::size_t i = 0; i < leg.minibatches.size(); ++i) {
        if (samples == kEnd) continue;
        samples = std::min(kEnd, samples + leg.minibatches[i]);
        ++of_worker[i];
        ++minibatches;
      }
    }
  }
};

TEST(Counts, GoOnUnderOtherPlans) {
  const std::vector<Leg> legs{
      {"hetpipe", {8, 6}, 4, 3},       {"hetpipe", {8, 6}, 2, 4},  // shorter waves
      {"hetpipe", {5, 5, 9}, 3, 2},     // more virtual workers, of other sizes
      {"dapple", {7}, 1, 5},            // without waves
      {"pipedream-2bw", {3, 4}, 4, 6},  // an update for each wave
      {"hetpipe", {12}, 5, 100},        // to the end, inside a wave
  };
  StartingPoint start;
  Dealt dealt;
  std::int64_t worker_minibatches = 0, updates = 0;  // before this run
  int compared = 0;
  for (const Leg& leg : legs) {
    TrainJob job = job_of(leg);
    job.start = start;
    const Sampler sampler = make_sampler(job);
    const WaveRules rules = make_wave_rules(job, sampler);
    const bool by_wave = leg.system == "pipedream-2bw";
    dealt.of_worker.clear();
    dealt.waves_with_samples = 0;
    const Label end = std::min(start.label + leg.waves, rules.end_label());
    for (Label label = start.label + 1; label <= end; ++label) {
      // What the run does next: Adam's step is one more, and so is what people read.
      const Minibatch p = (label - 1) * leg.in_flight;
      EXPECT_EQ(rules.minibatches_done(p),
                start.origin_counts.worker_minibatches + (label - 1 - start.label) * leg.in_flight);
      EXPECT_EQ(by_wave ? rules.updates_done_by_wave(label - 1) : rules.updates_done(p),
                updates + (label - 1 - start.label) * (by_wave ? 1 : leg.in_flight));
      dealt.deal_wave(leg);
      const std::int64_t most = *std::max_element(dealt.of_worker.begin(), dealt.of_worker.end());
      const Counts counts = counts_at(job, sampler, rules, label);
      EXPECT_EQ(counts.minibatches, dealt.minibatches);
      EXPECT_EQ(counts.worker_minibatches, worker_minibatches + most);
      EXPECT_EQ(counts.updates, updates + (by_wave ? dealt.waves_with_samples : most));
      // A continuation counts from where the pipelines were empty last.
      job.start.label = label;
      job.start.exact = true;
      EXPECT_EQ(counts_at(job, make_sampler(job), rules, label), counts);
      job.start = start;
      ++compared;
    }
    const Counts counts = counts_at(job, sampler, rules, end);
    worker_minibatches = counts.worker_minibatches;
    updates = counts.updates;
    start = StartingPoint::empty_pipelines("c.h5", end, dealt.samples, counts);
  }
  EXPECT_EQ(dealt.samples, kEnd);
  EXPECT_GT(compared, 25);
}

}  // namespace counts_test
}  // namespace hetpipe
