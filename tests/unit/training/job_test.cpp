// SPDX-License-Identifier: Apache-2.0
#include "runtime/training/job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>

#include "base/error.h"
#include "partitioner/schedule/lower.h"
#include "runtime/training/evaluations.h"
#include "tests/unit/base/travels.h"

namespace hetpipe {
namespace job_test {

// A plan of unequal virtual workers; layers do not matter here.
TrainJob make_job(std::vector<int> minibatches, int in_flight, int distance,
                  std::int64_t dataset_size, std::int64_t end_position) {
  TrainJob job;
  job.plan.in_flight = in_flight;
  for (std::size_t i = 0; i < minibatches.size(); ++i) {
    PlanVirtualWorker vw;
    vw.minibatch = minibatches[i];
    PlanStage stage;
    stage.end_layer = 3;
    stage.devices = {{"n0", static_cast<int>(i)}};
    vw.stages = {stage};
    job.plan.virtual_workers.push_back(vw);
  }
  job.plan.server = PlanServer{};
  job.plan.server->nodes = {"n0"};
  job.plan.server->clock_distance = distance;
  job.dataset_size = dataset_size;
  job.end_position = end_position;
  return job;
}

// As many stages for a virtual worker; which layers they hold is of no concern here.
void cut_into(TrainJob& job, int vw, int stages) {
  std::vector<PlanStage>& all = job.plan.virtual_workers[static_cast<std::size_t>(vw)].stages;
  all.resize(1);
  for (int k = 1; k < stages; ++k) {
    all.push_back(all.front());
    all.back().devices = {{"n0", 100 * vw + k}};
  }
}

WaveRules rules_of(const TrainJob& job) { return make_wave_rules(job, make_sampler(job)); }

std::vector<Label> due(const TrainJob& job, int every) {
  const WaveRules rules = rules_of(job);
  const DueLabels due = due_labels(job, rules, every, rules.start_wave());
  std::vector<Label> labels;
  for (auto label = due.next(0); label; label = due.next(*label)) labels.push_back(*label);
  for (Label label = 0; label <= rules.end_label() + 3; ++label) {
    EXPECT_EQ(due.contains(label), std::count(labels.begin(), labels.end(), label) == 1);
  }
  return labels;
}

TrainJob with_test_set(TrainJob job, int every) {
  job.test_size = 1;
  job.evaluate_every = every;
  return job;
}

std::vector<Label> evaluation_labels(const TrainJob& job, const WaveRules& rules) {
  const Evaluations evaluations(job, rules);
  std::vector<Label> labels;
  for (auto label = evaluations.first(); label; label = evaluations.next(*label)) {
    labels.push_back(*label);
  }
  return labels;
}

// All actions of a virtual worker, with its evaluations.
Schedule played(const TrainJob& job, VirtualWorkerId vw) {
  const WaveRules rules = rules_of(job);
  const Evaluations evaluations(job, rules);
  Schedule all;
  for (const PeriodicActions& actions : worker_schedule(job, rules, vw)) {
    ActionCursor cursor(actions, evaluations.place(), evaluations.events(vw));
    StageActions& stage = all.emplace_back();
    while (const auto action = cursor.next()) stage.push_back(*action);
  }
  return all;
}

// Labels due, label by label: a multiple of `every`, the first that contains an epoch's last
// sample, the run's last.
std::vector<Label> due_one_by_one(const TrainJob& job, int every) {
  const Sampler sampler = make_sampler(job);
  const WaveRules rules = make_wave_rules(job, sampler);
  std::vector<Label> labels;
  for (Label label = rules.first_wave + 1; label <= rules.end_label(); ++label) {
    const auto position = [&](Label l) {
      return sampler.consumed((l - rules.first_wave) * rules.in_flight);
    };
    const bool ends_epoch =
        position(label) / job.dataset_size > position(label - 1) / job.dataset_size;
    const bool periodic = every > 0 && label % every == 0;
    if (ends_epoch || periodic || label == rules.end_label()) labels.push_back(label);
  }
  return labels;
}

std::vector<TrainJob> jobs() {
  std::vector<TrainJob> all{
      make_job({4}, 1, 0, 40, 120),
      make_job({4, 4}, 2, 0, 100, 300),
      make_job({3, 5, 2}, 2, 1, 97, 500),
      make_job({8, 1}, 3, 2, 60, 61),
      make_job({7}, 4, 3, 10, 100),
      make_job({5, 5}, 2, 0, 1000, 130),  // less than an epoch
      make_job({2, 2, 2, 2}, 1, 4, 64, 640),
  };
  for (std::size_t i = 0, fresh = all.size(); i < fresh; ++i) {
    TrainJob resumed = all[i];
    resumed.start = StartingPoint::empty_pipelines("checkpoint.h5", 3, all[i].end_position / 3, {});
    all.push_back(resumed);
  }
  return all;
}

TEST(TrainJob, RulesFollowFromPlanAndSampler) {
  TrainJob job =
      make_job({3, 5}, 2, 1, 97, 50);  // six rounds of 8, then two samples for the first worker
  job.plan.server->pull = "newest";
  job.start = StartingPoint::empty_pipelines("checkpoint.h5", 4, 8, {});
  const WaveRules rules = rules_of(job);
  EXPECT_EQ(rules.in_flight, 2);
  EXPECT_EQ(rules.distance, 1);
  EXPECT_EQ(rules.pull, PullRule::newest);
  EXPECT_EQ(rules.first_wave, 4);
  EXPECT_EQ(rules.end, (std::vector<Minibatch>{8 + 5 + 1, 8 + 5}));
}

TEST(TrainJob, DueLabels) {
  for (const TrainJob& job : jobs()) {
    for (int every : {0, 1, 2, 3, 7}) {
      SCOPED_TRACE(testing::Message() << "size " << job.dataset_size << " end " << job.end_position
                                      << " start " << job.start.consumed << " every " << every);
      EXPECT_EQ(due(job, every), due_one_by_one(job, every));
    }
  }
  const TrainJob job = make_job({5, 5}, 2, 0, 40, 120);  // an epoch is two waves
  EXPECT_EQ(due(job, 0), (std::vector<Label>{2, 4, 6}));
  EXPECT_EQ(due(job, 3), (std::vector<Label>{2, 3, 4, 6}));
}

TEST(TrainJob, NothingIsDueWhereNothingIsLeft) {
  TrainJob job = make_job({5}, 1, 0, 40, 40);
  job.start = StartingPoint::empty_pipelines("checkpoint.h5", 8, 40, {});
  EXPECT_TRUE(due(job, 1).empty());
}

// Evaluation takes place at gates that every virtual worker has, and at the end.
TEST(TrainJob, EvaluationLabelsAreThoseOfGatesThatAllPass) {
  for (TrainJob job : jobs()) {
    for (int every : {0, 1, 3}) {
      SCOPED_TRACE(testing::Message() << "size " << job.dataset_size << " end " << job.end_position
                                      << " start " << job.start.consumed << " every " << every);
      job = with_test_set(job, every);
      const WaveRules rules = rules_of(job);
      std::vector<Label> expected;
      for (const Label label : due(job, every)) {
        bool all_pass = true;
        for (const Minibatch end : rules.end) {
          bool passes = false;  // one of this worker's gates takes this label when it takes the
                                // oldest that it may
          for (Minibatch p = rules.first_minibatch(); p < end; ++p) {
            const auto gate = rules.gate_before(p);
            if (!gate || rules.bound_label(*gate) != label) continue;
            passes = true;
            EXPECT_EQ(gate_minibatch(rules, label), p);
          }
          all_pass &= passes;
        }
        if (all_pass || label == rules.end_label()) expected.push_back(label);
      }
      EXPECT_EQ(evaluation_labels(job, rules), expected);
    }
  }
}

// E stands before everything else of the minibatch whose gate it belongs to, at every stage, and
// once per label.
TEST(TrainJob, EvaluationsStandBeforeTheirGates) {
  for (TrainJob job : jobs()) {
    job = with_test_set(job, 2);
    const WaveRules rules = rules_of(job);
    const std::vector<Label> evaluations = evaluation_labels(job, rules);
    for (int vw = 0; vw < rules.workers(); ++vw) {
      const Minibatch first = rules.first_minibatch(),
                      end = rules.end[static_cast<std::size_t>(vw)];
      if (end == first) continue;
      for (int stages = 1; stages <= 4; ++stages) {
        SCOPED_TRACE(testing::Message() << "worker " << vw << " stages " << stages);
        cut_into(job, vw, stages);
        const Schedule schedule = played(job, VirtualWorkerId{vw});
        Schedule plain;
        for (int k = 0; k < stages; ++k) {
          StageActions actions = schedule[static_cast<std::size_t>(k)];
          std::vector<Minibatch> evaluated;
          std::set<Minibatch> begun;
          for (const Action& action : actions) {
            if (action.kind == ActionKind::evaluate) {
              evaluated.push_back(action.minibatch);
              EXPECT_FALSE(begun.contains(action.minibatch)) << to_string(actions);
              if (action.minibatch < end) {
                EXPECT_TRUE(rules.gate_before(action.minibatch)) << to_string(actions);
                // Every earlier forward is through: its activations travel before the test set's on
                // the same channel.
                EXPECT_TRUE(begun.contains(action.minibatch - 1)) << to_string(actions);
              } else {
                EXPECT_EQ(begun.size(), static_cast<std::size_t>(end - first));
              }
            } else {
              begun.insert(action.minibatch);
            }
          }
          std::vector<Minibatch> due;
          for (const Label label : evaluations) {
            due.push_back(label == rules.end_label() ? end : gate_minibatch(rules, label));
          }
          EXPECT_EQ(evaluated, due) << to_string(actions);
          if (!evaluated.empty()) {
            EXPECT_TRUE(evaluated.back() < end || actions.back().kind == ActionKind::evaluate);
          }
          std::erase_if(actions,
                        [](const Action& action) { return action.kind == ActionKind::evaluate; });
          plain.push_back(std::move(actions));
        }
        validate(plain, rules.in_flight);
        EXPECT_EQ(plain, lower(continuous_1f1b(stages, rules.in_flight, first, end),
                               {StageSync::waves, rules.in_flight, first, end}));
      }
    }
  }
}

//   two stages, Nm = 2, D = 0, five minibatches; the test set at labels 1 and 3 (the end)
TEST(TrainJob, ActionsOfASmallRun) {
  TrainJob job = with_test_set(make_job({8}, 2, 0, 40, 40), 1);
  cut_into(job, 0, 2);
  const Schedule schedule = played(job, VirtualWorkerId{0});
  EXPECT_EQ(to_string(schedule[0]),
            "F0 S0 F1 S1 V0 B0 U0 F2 S2 V1 B1 U1 P1 E3 L3 F3 S3 V2 B2 U2 F4 S4 V3 B3 U3 P3 V4 B4 "
            "U4 P4 E5");
  EXPECT_EQ(to_string(schedule[1]),
            "V0 F0 B0 S0 U0 V1 F1 B1 S1 U1 P1 V2 F2 B2 S2 U2 E3 V3 L3 F3 B3 S3 U3 P3 V4 F4 B4 S4 "
            "U4 P4 E5");
}

// Of each problem, what it is.
std::string problems_of(const Plan& plan) {
  Problems problems;
  check_playable(plan, problems);
  try {
    problems.throw_if_any();
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(TrainJob, EverySystemIsPlayable) {
  for (const System& system : systems()) {
    TrainJob job = make_job({8, 8}, 1, 0, 80, 80);
    job.plan.system = system.name;
    job.plan.micro_batches = 2;
    job.plan.virtual_workers[1].stages[0].devices.push_back({"n1", 0});
    if (!traits(system.sync).waves()) job.plan.server.reset();
    EXPECT_EQ(problems_of(job.plan), "") << system.name;
  }
}

//   Two virtual workers, two stages, all-reduce: E behind the update that completes a label.
TEST(TrainJob, WithoutServersEvaluationsStandBehindTheirUpdates) {
  TrainJob job = with_test_set(make_job({8}, 2, 0, 40, 40), 1);
  job.plan.system = "pipedream";
  job.plan.server.reset();
  cut_into(job, 0, 2);
  const Schedule schedule = played(job, VirtualWorkerId{0});
  EXPECT_EQ(to_string(schedule[0]),
            "F0 S0 F1 S1 V0 B0 P0 U0 F2 S2 V1 B1 P1 U1 E1 F3 S3 V2 B2 P2 U2 F4 S4 V3 B3 P3 U3 E3 V4 "
            "B4 P4 U4 E4");
  EXPECT_EQ(to_string(schedule[1]),
            "V0 F0 B0 S0 P0 U0 V1 F1 B1 S1 P1 U1 E1 V2 F2 B2 S2 P2 U2 V3 F3 B3 S3 P3 U3 E3 V4 F4 B4 "
            "S4 P4 U4 E4");
}

TEST(TrainJob, WhatTheExecutorCannotPlay) {
  const TrainJob job = make_job({4, 4}, 1, 0, 40, 40);
  EXPECT_EQ(problems_of(job.plan), "");
  const auto expect = [&](const char* part, const std::function<void(Plan&)>& change) {
    Plan plan = job.plan;
    change(plan);
    EXPECT_THAT(problems_of(plan), testing::HasSubstr(part));
  };
  expect("a [parameter_server], and sync = 'all-reduce'",
         [](Plan& plan) { plan.sync = "all-reduce"; });
  expect("no [parameter_server]", [](Plan& plan) { plan.server.reset(); });
  expect("weights 'two-versions' under sync 'wsp'",
         [](Plan& plan) { plan.weights = "two-versions"; });
  expect("schedule 'interleaved-1f1b' under sync 'wsp'", [](Plan& plan) {
    plan.schedule = "interleaved-1f1b";
    plan.weights = "one-version";
  });
  expect("a flush leaves one version", [](Plan& plan) { plan.schedule = "gpipe"; });
  expect("runtime = 'megatron-deepspeed'", [](Plan& plan) { plan.runtime = "megatron-deepspeed"; });
  expect("virtual worker 1 stage 0: 5 devices for a micro-batch of 4 samples", [](Plan& plan) {
    for (int i = 0; i < 4; ++i) plan.virtual_workers[1].stages[0].devices.push_back({"n1", i});
  });
}

// A job with nothing as it is by default.
TrainJob full_job() {
  TrainJob job = test::filled<TrainJob>();
  job.plan = make_job({3, 5}, 2, 1, 97, 500).plan;
  job.plan.model = "lenet";
  job.plan.server->hosted = true;
  job.sample = Shape{28, 27, 3};
  job.optimizer.schedule.rule = RateRule::polynomial;
  job.optimizer.clipping.scope = ClipScope::wave;
  job.plan.precision = precision_choice_from("bf16,titan-v=fp16");
  job.cluster = parse_cluster(R"(format = 1
[device.a]
memory = 1_000_000_000
emulate = { slowdown = 3.7 }
[[node]]
name = "n0"
devices = ["a", "a"]
[link.intra_node]
bandwidth = 1e9
[link.inter_node]
bandwidth = 1e8
latency = 1e-5
)",
                              "cluster.toml");
  job.profile =
      Profile{.model = "lenet",
              .layers = {{.name = "one", .inputs = {}, .parameter_bytes = 4, .shares = ""},
                         {.name = "two", .inputs = {0}, .parameter_bytes = 0, .shares = ""}},
              .measurements = {{.device = "cpu",
                                .batch = 3,
                                .forward = {1.0 / 3, 2e-7},
                                .backward = {1.0 / 7, 3e-7},
                                .update = {},
                                .output_bytes = {12, 24},
                                .stash_bytes = {0, 8}}}};
  job.time = SimulatedTime{job.plan, *job.cluster, *job.profile, "other.toml"};
  return job;
}

TEST(TrainJob, TravelsAsItIs) {
  const TrainJob job = full_job();
  test::expect_all_travels(job);
  test::expect_all_travels(job.optimizer);
  test::expect_all_travels(job.optimizer.schedule);
  test::expect_all_travels(job.optimizer.clipping);
  test::expect_all_travels(job.start);
}

TEST(TrainJob, TravelsWithWhatIsLeftOpen) {
  TrainJob job = full_job();
  job.cluster.reset();
  job.profile.reset();
  job.time.reset();
  job.target_accuracy.reset();
  job.plan.precision.every.reset();
  job.sample = Shape{64};  // a text
  test::expect_travels(job);
}

// More than a double or a signed number holds.
TEST(TrainJob, TravelsWithEveryBitOfANumber) {
  TrainJob job = full_job();
  job.dataset_fingerprint = 0xfedcba9876543210;
  job.test_fingerprint = 0xfedcba9876543211;
  job.seed = 0xffffffffffffffff;
  job.optimizer.momentum = 1.0 / 3;
  job.start.checkpoint = "runs/a \"b\"\\ü/\xff/checkpoint.h5";
  test::expect_travels(job);
}

}  // namespace job_test
}  // namespace hetpipe
