// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <ostream>
#include <random>
#include <tuple>

#include "base/index.h"
#include "base/text.h"
#include "partitioner/cost/memory.h"
#include "partitioner/plan/staleness.h"
#include "partitioner/plan/system.h"
#include "partitioner/schedule/counts.h"
#include "runtime/pipeline/measure.h"
#include "runtime/training/roles.h"
#include "runtime/training/run.h"
#include "tests/end-to-end/training.h"

// What every rank holds and sends, as its allocator and its messages counted it in a training,
// against what the schedule says (partitioner/schedule/counts.h) and the ledger makes of it
// (partitioner/cost/memory.h).
namespace hetpipe {
namespace held_test {

constexpr int kStages = 4;
constexpr int kMicroBatch = 32;  // samples of what one action computes
constexpr int kMinibatches = 16;

// "snn-mlp": eight equal linear layers, each in front of SELU and dropout; a stage ends behind a
// linear layer, whose output no backward reads. "resnet-8": stages of unlike layers, cut inside of
// blocks too. "gpt2-tiny": the first stage's weight of 2,000 words is the last stage's too.
struct Playing {
  std::string system, schedule, weights;
  int in_flight, micro_batches;
  std::string model = "snn-mlp";
  double ema = 0;
  int distance = 0;
  std::string push_precision = "fp32";
  int round = 1;  // more: sync = "outer"
  std::string optimizer = "sgd-momentum";
  bool recompute = false;
  int chunks = 1;  // of each device
  int stages = kStages;
  int micro_batch = kMicroBatch;
  int side = 16;                  // of a picture
  std::vector<int> stage_ends{};  // but the last; empty: those of the model above
  std::string sync{};             // empty: the system's
  int minibatch() const { return micro_batch * micro_batches; }
};

void PrintTo(const Playing& run, std::ostream* out) {
  *out << run.system << " " << run.schedule << " " << run.weights << " Nm = " << run.in_flight
       << ", M = " << run.micro_batches << " " << run.model;
}

struct Measured {
  Plan plan;
  std::vector<RankReport> ranks;  // by stage
  std::vector<HeldCounts> counts;
  std::vector<MemoryLedger> ledgers;
  std::vector<std::int64_t> parameters;  // bytes

  std::int64_t peak(int k, MemoryKind kind) const {
    return ranks[at(k)].peak_of_kind[at(static_cast<int>(kind))];
  }
};

Dataset only(const Dataset& data, Parts parts) {
  Dataset part = data;
  if (!wants_images(parts)) {
    part.token_ids.clear();
    part.values.clear();
  }
  if (!wants_labels(parts)) part.labels.clear();
  return part;
}

// No checkpoints: saving takes copies of its own.
std::vector<RankReport> train(const Bench& bench, TrainJob job, const std::string& name) {
  const auto folder =
      std::filesystem::temp_directory_path() / format("hetpipe-%s-%d", name.c_str(), ::getpid());
  std::filesystem::create_directories(folder);
  job.checkpoint_folder.clear();
  job.trace_folder = folder;
  const int ranks = job.plan.worker_ranks() + job.plan.server_ranks();
  const Roles roles =
      assign_roles(job.plan, std::vector<std::string>(at(ranks), "here"), Matching::plan_order);
  Log silent(nullptr, nullptr, Log::Terminal::no);
  const OpenData open_data = [&](Split split, Parts parts) {
    return only(split == Split::train ? bench.data() : bench.test_data(), parts);
  };
  RunEnd end = train_as_threads(job, roles, open_data, "here", silent, {});
  std::filesystem::remove_all(folder);
  std::vector<RankReport> reports = std::move(end.outcome.ranks);
  std::sort(reports.begin(), reports.end(),
            [](const RankReport& a, const RankReport& b) { return a.stage < b.stage; });
  return reports;
}

Measured measure(const Playing& run, const std::string& device = "cpu") {
  Training training{
      .model = run.model, .sample = {run.side, run.side, 1}, .classes = 10, .device = device};
  training.transport_path = "staged";  // plans do not count the memory of others
  training.workers = {
      {run.minibatch(), run.model == "snn-mlp" ? std::vector{8, 14, 20} : std::vector{7, 14, 22}}};
  const bool text = run.model == "gpt2-tiny";
  if (text) {
    training.sample = {2};
    training.classes = 2000;
    training.workers[0].stage_ends = {14, 26, 38};
  }
  if (!run.stage_ends.empty()) training.workers[0].stage_ends = run.stage_ends;
  if (run.stages == 1) training.workers[0].stage_ends.clear();
  training.workers[0].recompute = run.recompute;
  training.chunks = run.chunks;
  training.samples = kMinibatches * run.minibatch();
  training.test_samples = 2 * run.minibatch();
  training.evaluate_every = 2;
  training.system = run.system;
  training.schedule = run.schedule;
  training.weights = run.weights;
  training.in_flight = run.in_flight;
  training.micro_batches = run.micro_batches;
  training.ema = run.ema;
  training.distance = run.distance;
  training.push_precision = run.push_precision;
  training.round = run.round;
  training.optimizer.name = run.optimizer;
  training.sync = run.round > 1 ? "outer" : run.sync;
  if (run.sync == "server-step") training.scale = "mean";
  const Bench bench(training);
  const TrainJob job = bench.job_of();

  Measured measured;
  measured.plan = job.plan;
  measured.ranks = train(bench, job, "held");
  const System system = composition(job.plan);
  measured.counts =
      HeldTable().of(system.schedule, {run.stages, 1, run.micro_batches, run.in_flight});

  MeasureOptions once;  // sizes are wanted, not times
  once.device = device;
  once.repetitions = 1;
  once.seconds_per_layer = 0;
  const Profile profile = measure_profile(bench.model(), bench.device(), {run.micro_batch}, once);
  Cluster cluster;
  DeviceKind& kind = cluster.kinds.emplace_back();
  kind.name = device;
  kind.memory = std::int64_t{1} << 40;
  cluster.nodes.push_back({.name = "n0", .kinds = std::vector<int>(at(run.stages), 0)});
  for (int k = 0; k < run.stages; ++k) {
    measured.ledgers.push_back(
        stage_ledger(job.plan, cluster, profile, VirtualWorkerId{0}, StageId{k}));
    const PlanStage& stage = job.plan.virtual_workers.front().stages[at(k)];
    std::int64_t& parameters = measured.parameters.emplace_back();
    for (int l = stage.first_layer; l < stage.end_layer; ++l) {
      parameters += profile.layers[at(l)].parameter_bytes;
    }
  }
  return measured;
}

// Within 5 %.
// `at_least`: of the ledger. Stages of less than `smallest` bytes, of which what nobody counts is
// percents, are left out.
void expect_the_ledgers_peak(const Measured& measured, double at_least = 0.95,
                             double smallest = 0) {
  for (int k = 0; k < static_cast<int>(measured.ledgers.size()); ++k) {
    std::string lines;
    for (const LedgerLine& line : measured.ledgers[at(k)].lines) {
      lines += format(" %s %lld", line.name.c_str(), static_cast<long long>(line.bytes));
    }
    const auto ledger = static_cast<double>(measured.ledgers[at(k)].total());
    const auto peak = static_cast<double>(measured.ranks[at(k)].peak_memory);
    if (ledger < smallest) continue;
    EXPECT_GE(peak, at_least * ledger) << "stage " << k << ":" << lines;
    EXPECT_LE(peak, 1.05 * ledger) << "stage " << k << ":" << lines;
  }
}

class Held : public ::testing::TestWithParam<Playing> {};

TEST_P(Held, PeakMemoryIsTheLedgers) { expect_the_ledgers_peak(measure(GetParam())); }

TEST_P(Held, PeakMemoryOfAConvolutionalNetworkIsTheLedgers) {
  Playing run = GetParam();
  run.model = "resnet-8";
  expect_the_ledgers_peak(measure(run));
}

// Wherever unlike layers are cut, in stages of at least two: pools whose backwards hold two
// gradients, layers in place, convolutions with scratch of their own, blocks with shortcuts.
TEST(HeldCuts, PeakMemoryIsTheLedgers) {
  std::mt19937 random(5);
  for (const auto& [model, layers] :
       {std::pair{"lenet", 12}, std::pair{"lenet-bn", 14}, std::pair{"resnet-8", 31}}) {
    for (Playing run :
         {Playing{"hetpipe", "", "", 1, 1}, Playing{"hetpipe", "", "", 2, 1},
          Playing{"hetpipe", "", "", 4, 1}, Playing{"hetpipe", "", "", 2, 2},
          Playing{"pipedream", "", "", 4, 1}, Playing{"xpipe", "", "", 4, 2},
          Playing{"gpipe", "", "", 1, 4}, Playing{"dapple", "", "", 1, 8},
          Playing{"pipedream-2bw", "", "", 1, 4}, Playing{"zero-bubble", "", "", 1, 8}}) {
      run.model = model;
      std::vector<int> gaps(static_cast<std::size_t>(layers - 2 * kStages));
      for (int& gap : gaps) gap = static_cast<int>(random() % kStages);
      for (int k = 0, end = 0; k + 1 < kStages; ++k) {
        end += 2 + static_cast<int>(std::count(gaps.begin(), gaps.end(), k));
        run.stage_ends.push_back(end);
      }
      SCOPED_TRACE(testing::PrintToString(run) + " " + testing::PrintToString(run.stage_ends));
      expect_the_ledgers_peak(measure(run), 0.95, 300e3);
    }
  }
}

TEST(HeldRecomputed, PeakMemoryIsTheLedgers) {
  for (const char* model : {"snn-mlp", "resnet-8"}) {
    for (Playing run : {Playing{"hetpipe", "", "", 4, 1}, Playing{"dapple", "", "", 1, 8},
                        Playing{"gpipe", "", "", 1, 8}}) {
      run.model = model;
      run.recompute = true;
      SCOPED_TRACE(testing::PrintToString(run));
      expect_the_ledgers_peak(measure(run));
    }
  }
}

// Of chunks that are alike; others do not hold most at one moment.
TEST(HeldChunks, PeakMemoryIsTheLedgers) {
  for (const auto& [model, ends, at_least] :
       {std::tuple{"snn-mlp", std::vector{4, 7, 10, 12, 14, 17, 20}, 0.95},
        std::tuple{"resnet-8", std::vector{4, 8, 12, 15, 19, 22, 26}, 0.75}}) {
    for (const bool recompute : {false, true}) {
      Playing run{"pipedream-flush", "interleaved-1f1b", "", 1, 8};
      run.model = model;
      run.chunks = 2;
      run.recompute = recompute;
      run.stage_ends = ends;
      SCOPED_TRACE(testing::PrintToString(run));
      expect_the_ledgers_peak(measure(run), at_least);
    }
  }
}

// The host enqueues the next pass before a device beside it is done with one: the same memory.
TEST(HeldAhead, PeakMemoryIsTheLedgers) {
  for (const Playing& run :
       {Playing{"hetpipe", "", "", 4, 1}, Playing{"gpipe", "", "", 1, 4},
        Playing{"zero-bubble", "", "", 1, 8}, Playing{"pipedream", "", "", 4, 1}}) {
    SCOPED_TRACE(testing::PrintToString(run));
    const Measured measured = measure(run, "offload");
    expect_the_ledgers_peak(measured);
    // Noted of a host that is ahead alone: before the first pass it waits for nothing.
    for (const RankReport& rank : measured.ranks) EXPECT_GT(rank.unfed_seconds, 0);
  }
}

// What has been pushed takes half, the sum that is made the whole. With D > 0 one of the waves that
// the ledger counts has gone by the time of the peak.
TEST(HeldPushes, PeakMemoryIsTheLedgers) {
  for (const std::string device : {"cpu", "offload"}) {
    for (const int distance : {0, 2}) {
      SCOPED_TRACE(format("%s, D = %d", device.c_str(), distance));
      Playing run{"hetpipe", "", "", 4, 1};
      run.distance = distance;
      const Measured whole = measure(run, device);
      run.push_precision = "bf16";
      const Measured halved = measure(run, device);
      const double at_least = distance == 0 ? 0.95 : 0.85;
      expect_the_ledgers_peak(whole, at_least);
      expect_the_ledgers_peak(halved, at_least);
      for (int k = 0; k < kStages; ++k) {
        EXPECT_EQ(whole.ledgers[at(k)].total() - halved.ledgers[at(k)].total(),
                  std::max(1, distance) * halved.parameters[at(k)] / 2);
        if (distance > 0) {
          EXPECT_LE(halved.ranks[at(k)].peak_memory,
                    whole.ranks[at(k)].peak_memory - halved.parameters[at(k)] / 2);
        }
      }
    }
  }
}

// With one minibatch in flight, what it works with has gone when its wave is summed up.
TEST(HeldPushes, PeakMemoryOfWavesOfOneIsTheLedgers) {
  for (const int micro_batches : {1, 2}) {
    for (const int distance : {0, 2}) {
      for (const std::string precision : {"fp32", "bf16"}) {
        Playing run{"hetpipe", "", "", 1, micro_batches};
        run.distance = distance;
        run.push_precision = precision;
        SCOPED_TRACE(testing::PrintToString(run) + format(" D = %d, ", distance) + precision);
        expect_the_ledgers_peak(measure(run));
      }
    }
  }
}

// Where a sample takes little beside the weights, an evaluation has room because the weights are
// gone that its snapshot replaces.
TEST(HeldEvaluations, PeakMemoryOfStagesWithAllLayersIsTheLedgers) {
  for (const int distance : {0, 1}) {
    Playing run{"ssp", "", "", 1, 1};
    run.model = "lenet";
    run.micro_batch = 8;
    run.side = 28;
    run.stages = 1;
    run.distance = distance;
    SCOPED_TRACE(format("D = %d", distance));
    expect_the_ledgers_peak(measure(run));
  }
}

// A round of two waves takes no more than a wave.
TEST(HeldPushes, PeakMemoryOfRoundsIsTheLedgers) {
  Playing run{"hetpipe", "", "", 4, 1};
  run.distance = 1;
  run.round = 2;
  expect_the_ledgers_peak(measure(run, "offload"), 0.85);
}

// Stages hold no state of it.
TEST(HeldPushes, PeakMemoryWithTheOptimizerAtTheServersIsTheLedgers) {
  Playing run{"hetpipe", "", "", 4, 1};
  run.optimizer = "adam";
  run.sync = "server-step";
  expect_the_ledgers_peak(measure(run, "offload"));
}

TEST(HeldAhead, PeakMemoryOfTiedWeightsIsTheLedgers) {
  for (const std::string system : {"hetpipe", "spectrain"}) {
    Playing run{system, "", "", 4, 1};
    run.model = "gpt2-tiny";
    SCOPED_TRACE(system);
    expect_the_ledgers_peak(measure(run, "offload"));
  }
}

const std::vector<Playing>& runs() {
  static const std::vector<Playing> all{
      {"hetpipe", "", "", 4, 1},         {"hetpipe", "", "", 4, 2},
      {"gpipe", "", "", 1, 4},           {"gpipe", "", "", 1, 8},
      {"dapple", "", "", 1, 4},          {"dapple", "", "", 1, 8},
      {"dapple", "dapple-pb", "", 1, 8}, {"pipedream-flush", "", "", 1, 8},
      {"zero-bubble", "", "", 1, 8},     {"zero-bubble", "zb-h2", "", 1, 8},
      {"pipedream", "", "", 4, 1},       {"pipedream", "", "vertical-sync", 4, 1},
      {"pipedream-2bw", "", "", 4, 1},   {"vanilla", "", "", 4, 1},
      {"xpipe", "", "", 4, 4},           {"xpipe", "", "", 4, 2},
      {"spectrain", "", "", 4, 1},       {"timeprest", "", "", 2, 2},
      {"timeprest", "", "", 2, 4},       {"timeprest", "", "mixed", 2, 4},
  };
  return all;
}

INSTANTIATE_TEST_SUITE_P(Systems, Held, ::testing::ValuesIn(runs()), [](const auto& param) {
  const Playing& run = param.param;
  std::string name;
  for (const char c : run.system + run.schedule + run.weights) {
    if (c != '-') name += c;
  }
  return name + format("M%d", run.micro_batches);
});

TEST(HeldTiedWeights, PeakMemoryIsTheLedgers) {
  for (const Playing& run :
       {Playing{"hetpipe", "", "", 4, 1}, Playing{"gpipe", "", "", 1, 4},
        Playing{"pipedream", "", "", 4, 1}, Playing{"vanilla", "", "", 4, 1},
        Playing{"pipedream-2bw", "", "", 4, 1}, Playing{"spectrain", "", "", 4, 1},
        Playing{"xpipe", "", "", 4, 2}, Playing{"timeprest", "", "", 2, 2}}) {
    SCOPED_TRACE(testing::PrintToString(run));
    Playing tied = run;
    tied.model = "gpt2-tiny";
    expect_the_ledgers_peak(measure(tied));
  }
}

// Where no server keeps the average of the weights, every stage has it beside the optimizer's
// state.
TEST(HeldAverage, PeakMemoryIsTheLedgers) {
  for (const Playing& run :
       {Playing{"gpipe", "", "", 1, 4}, Playing{"pipedream", "", "", 4, 1},
        Playing{"pipedream-2bw", "", "", 4, 1}, Playing{"vanilla", "", "", 4, 1},
        Playing{"zero-bubble", "", "", 1, 8}, Playing{"spectrain", "", "", 4, 1},
        Playing{"hetpipe", "", "", 4, 1}}) {
    SCOPED_TRACE(testing::PrintToString(run));
    Playing averaged = run;
    averaged.ema = 0.9;
    const Measured without = measure(run);
    const Measured with = measure(averaged);
    expect_the_ledgers_peak(with);
    const bool here = run.system != "hetpipe";
    for (int k = 0; k < kStages; ++k) {
      const std::int64_t more = here ? with.parameters[at(k)] : 0;
      EXPECT_EQ(with.peak(k, MemoryKind::optimizer), without.peak(k, MemoryKind::optimizer) + more);
      EXPECT_EQ(with.ledgers[at(k)].total(), without.ledgers[at(k)].total() + more);
    }
  }
}

// Changes that are made orthogonal need scratch, here more than any backward works on.
TEST(HeldUpdates, PeakMemoryIsTheLedgers) {
  for (const Playing& run : {Playing{"hetpipe", "", "", 4, 1}, Playing{"gpipe", "", "", 1, 4}}) {
    SCOPED_TRACE(testing::PrintToString(run));
    Playing orthogonal = run;
    orthogonal.optimizer = "muon";
    const Measured measured = measure(orthogonal);
    // Behind a flush messages have mostly gone, too.
    expect_the_ledgers_peak(measured, run.system == "gpipe" ? 0.93 : 0.95);
    for (int k = 0; k < kStages; ++k) {
      const MemoryLedger& ledger = measured.ledgers[at(k)];
      const auto line = std::find_if(ledger.lines.begin(), ledger.lines.end(),
                                     [](const LedgerLine& of) { return of.name == "workspace"; });
      ASSERT_NE(line, ledger.lines.end());
      EXPECT_GE(measured.peak(k, MemoryKind::workspace), line->bytes) << k;
      constexpr std::int64_t kWidest = 256;  // two squares, and what a change is moved by
      EXPECT_NEAR(static_cast<double>(measured.peak(k, MemoryKind::workspace)),
                  3.0 * sizeof(float) * kWidest * kWidest, 1000)
          << k;
    }
  }
}

// The weights themselves are the first version; once the first update has been made the newest is
// one of these. A single one is updated in place.
TEST(HeldVersions, StashesAreAsManyAsAreInFlight) {
  for (const char* weights : {"", "vertical-sync"}) {
    const Measured measured = measure({"pipedream", "", weights, 4, 1});
    for (int k = 0; k < kStages; ++k) {
      const int held = measured.counts[at(k)].minibatches;
      EXPECT_EQ(held, kStages - k);
      EXPECT_EQ(measured.peak(k, MemoryKind::versions),
                held > 1 ? held * measured.parameters[at(k)] : 0)
          << weights << " stage " << k;
    }
  }
}

TEST(HeldVersions, AtMostTwoUnderTwoVersions) {
  const Measured measured = measure({"pipedream-2bw", "", "", 4, 1});
  for (int k = 0; k < kStages; ++k) {
    EXPECT_EQ(measured.peak(k, MemoryKind::versions),
              k + 1 < kStages ? 2 * measured.parameters[at(k)] : 0);
  }
}

TEST(HeldVersions, NoneWhereTheNewestIsUsed) {
  for (const Playing& run :
       {Playing{"vanilla", "", "", 4, 1}, Playing{"gpipe", "", "", 1, 4},
        Playing{"dapple", "", "", 1, 4}, Playing{"zero-bubble", "zb-h2", "", 1, 8}}) {
    const Measured measured = measure(run);
    for (int k = 0; k < kStages; ++k) EXPECT_EQ(measured.peak(k, MemoryKind::versions), 0);
  }
}

VersionDifference steps_of(const Measured& measured, int stage) {
  for (const PlanStaleness& of : plan_staleness(measured.plan)) {
    return {of.forward[at(stage)], of.backward[at(stage)]};
  }
  ADD_FAILURE() << "no prediction steps";
  return {};
}

// One prediction beside the newest weights; none is kept from F to B.
TEST(HeldVersions, SpecTrainHoldsOnePredictionAndMakesOneForEachPassAhead) {
  const Measured measured = measure({"spectrain", "", "", 4, 1});
  for (int k = 0; k < kStages; ++k) {
    const VersionDifference steps = steps_of(measured, k);
    EXPECT_EQ(measured.peak(k, MemoryKind::versions), measured.parameters[at(k)]);
    EXPECT_EQ(measured.ranks[at(k)].predictions,
              kMinibatches * ((steps.forward > 0) + (steps.backward > 0)))
        << "stage " << k;
  }
}

// One for all micro-batches of a pass; another where those of a forward and a backward alternate.
TEST(HeldVersions, XPipeMakesOnePredictionForEachMinibatchAndPass) {
  for (const int micro_batches : {2, 4}) {
    const Measured measured = measure({"xpipe", "", "", 4, micro_batches});
    for (int k = 0; k < kStages; ++k) {
      const VersionDifference steps = steps_of(measured, k);
      EXPECT_EQ(measured.ranks[at(k)].predictions,
                kMinibatches * ((steps.forward > 0) + (steps.backward > 0)))
          << "M = " << micro_batches << " stage " << k;
      const std::int64_t most = measured.counts[at(k)].passes_at_once();
      EXPECT_GE(measured.peak(k, MemoryKind::versions), measured.parameters[at(k)]);
      EXPECT_LE(measured.peak(k, MemoryKind::versions), most * measured.parameters[at(k)]);
      EXPECT_LE(most, 2);
    }
  }
}

// arXiv 2410.14312: with v = 1 at most two versions of the weights, the newest included.
TEST(HeldVersions, TiMePReStHoldsAtMostTwo) {
  for (const int micro_batches : {2, 4}) {
    const Measured measured = measure({"timeprest", "", "", 2, micro_batches});
    for (int k = 0; k < kStages; ++k) {
      const int old = measured.counts[at(k)].old_versions;
      EXPECT_LE(old, 1);
      EXPECT_EQ(measured.peak(k, MemoryKind::versions),
                old > 0 ? 2 * measured.parameters[at(k)] : 0)
          << "N = " << micro_batches << " stage " << k;
    }
  }
}

// GPipe holds all micro-batches: two lengths tell what one takes. Everybody else holds so many
// fewer.
TEST(HeldActivations, AreTheSchedulesMicroBatches) {
  const Measured four = measure({"gpipe", "", "", 1, 4});
  const Measured eight = measure({"gpipe", "", "", 1, 8});
  std::vector<std::int64_t> each;
  for (int k = 0; k < kStages; ++k) {
    const std::int64_t more =
        eight.peak(k, MemoryKind::activations) - four.peak(k, MemoryKind::activations);
    EXPECT_EQ(more % 4, 0);
    each.push_back(more / 4);
    EXPECT_GT(each.back(), 0);
  }
  for (const Playing& run :
       {Playing{"dapple", "", "", 1, 4}, Playing{"dapple", "", "", 1, 8},
        Playing{"dapple", "", "", 1, 12}, Playing{"dapple", "dapple-pb", "", 1, 12},
        Playing{"pipedream-flush", "", "", 1, 8}, Playing{"pipedream", "", "", 4, 1},
        Playing{"hetpipe", "", "", 4, 1}, Playing{"vanilla", "", "", 3, 1},
        Playing{"spectrain", "", "", 4, 1}, Playing{"xpipe", "", "", 4, 4}}) {
    const Measured measured = measure(run);
    for (int k = 0; k < kStages; ++k) {
      EXPECT_EQ(measured.peak(k, MemoryKind::activations),
                eight.peak(k, MemoryKind::activations) -
                    (8 - measured.counts[at(k)].together) * each[at(k)])
          << testing::PrintToString(run) << " stage " << k;
    }
  }
}

// Messages of a minibatch over all stages, of a model whose cuts one tensor crosses.
TEST(HeldMessages, AreCountedByTheSchedule) {
  struct Case {
    Playing run;
    int each;
  };
  const int cuts = kStages - 1;
  for (const auto& [run, each] : std::vector<Case>{{{"hetpipe", "", "", 4, 1}, 2 * cuts},
                                                   {{"hetpipe", "", "", 4, 4}, 2 * cuts},
                                                   {{"pipedream", "", "", 4, 1}, 2 * cuts},
                                                   {{"gpipe", "", "", 1, 4}, 2 * cuts * 4},
                                                   {{"dapple", "", "", 1, 4}, 2 * cuts * 4},
                                                   {{"zero-bubble", "", "", 1, 4}, 2 * cuts * 4},
                                                   {{"xpipe", "", "", 4, 4}, 2 * cuts * 4},
                                                   {{"timeprest", "", "", 2, 2}, cuts * (2 + 1)},
                                                   {{"timeprest", "", "", 2, 4}, cuts * (4 + 1)},
                                                   {{"timeprest", "", "", 2, 7}, cuts * (7 + 1)}}) {
    const Measured measured = measure(run);
    std::int64_t messages = 0;
    for (const RankReport& rank : measured.ranks) {
      messages += rank.messages_forward + rank.messages_backward;
    }
    EXPECT_EQ(messages, each * kMinibatches) << testing::PrintToString(run);
  }
}

}  // namespace held_test
}  // namespace hetpipe
