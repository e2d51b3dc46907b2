// SPDX-License-Identifier: Apache-2.0
#include "runtime/sync/group_synchronizer.h"
#include "tests/unit/sync/listed_labels.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>

#include "base/index.h"
#include "kernels/devices.h"
#include "runtime/transport/threads.h"
#include "tests/main/patience.h"
#include "tests/unit/sync/on_threads.h"

// Runs without servers, ranks as threads: stages without their arithmetic play one minibatch after
// another. Every rank must have the same weights as a serial program at each label, every due
// checkpoint must come once, and a stop must find a label that all keep to.
namespace hetpipe {
namespace group_synchronizer_test {

//   0 linear  1 batch norm  2 relu  3 linear  4 batch norm  5 loss
Model small_model() {
  Model model("small", {3}, 3);
  model.add("linear1", Linear{4});
  model.add("bn1", BatchNorm{});
  model.add("relu1", Relu{});
  model.add("linear2", Linear{3});
  model.add("bn2", BatchNorm{});
  model.add("loss", SoftmaxCrossEntropy{});
  return model;
}
constexpr int kLayers = 6;

// In place of activations and gradients.
struct Token {
  static constexpr auto kKind = static_cast<std::int32_t>(SyncKind::end);
  Minibatch minibatch = 0;
};

struct Planned {
  int first = 0;
  int end = 0;
  std::vector<int> ranks;  // of the replicas
};
struct Case {
  const char* name;
  std::vector<std::vector<Planned>> workers;
  std::vector<int> minibatch;  // samples, by virtual worker
  int ranks = 0;
  int in_flight = 1;
  Minibatch end = 0;
  std::vector<Label> checkpoints;
  Minibatch stop_before = -1;  // the last rank asks for it then
};
void PrintTo(const Case& played, std::ostream* out) { *out << played.name; }

// Whole numbers, so that sums are exact in any order.
float gradient_of(int rank, Minibatch p, std::int64_t element) {
  return static_cast<float>((rank * 7 + p * 3 + element) % 11 - 5);
}
float statistic_of(int rank, Minibatch p, std::int64_t element) {
  return static_cast<float>(rank * 100 + p * 10 + element) / 3;
}

class Play {
 public:
  explicit Play(const Case& played) : case_(played), model_(small_model()) {
    for (const auto& stages : played.workers) {
      PlanVirtualWorker& worker = plan_.emplace_back();
      ranks_of_.emplace_back();
      for (const Planned& stage : stages) {
        PlanStage& made = worker.stages.emplace_back();
        made.first_layer = stage.first;
        made.end_layer = stage.end;
        made.devices.resize(stage.ranks.size());
        ranks_of_.back().emplace_back();
        for (const int r : stage.ranks) ranks_of_.back().back().emplace_back(r);
      }
    }
  }

  struct Seen {
    std::vector<float> weights;  // when the run ended
    Minibatch end = 0;
    std::vector<CheckpointParts> checkpoints;
  };

  std::vector<Seen> run() {
    std::vector<Seen> seen(at(case_.ranks));
    test::on_threads(case_.ranks,
                     [&](Transport& rank) { work(rank, seen[at(rank.rank().value)]); });
    return seen;
  }

  // [layer] of the model, after `updates` minibatches.
  std::vector<std::vector<float>> weights(Minibatch updates) const {
    std::vector<std::vector<float>> all;
    const auto floats = floats_of_layers(model_, ShardMap::What::parameters);
    for (int l = 0; l < kLayers; ++l) {
      std::vector<float>& layer = all.emplace_back(at(floats[at(l)]));
      for (const auto& [rank, offset] : holders(l, floats)) {
        for (std::size_t e = 0; e < layer.size(); ++e) {
          for (Minibatch p = 0; p < updates; ++p) {
            layer[e] += gradient_of(rank, p, offset + static_cast<std::int64_t>(e));
          }
        }
      }
    }
    return all;
  }

  std::vector<std::vector<float>> statistics(Minibatch updates) const {
    std::vector<std::vector<float>> all;
    const auto floats = floats_of_layers(model_, ShardMap::What::statistics);
    double samples = 0;
    for (const int of : case_.minibatch) samples += of;
    for (int l = 0; l < kLayers; ++l) {
      std::vector<float>& layer = all.emplace_back(at(floats[at(l)]));
      for (std::size_t e = 0; e < layer.size(); ++e) {
        bool first = true;
        for (const auto& [rank, offset] : holders(l, floats)) {
          const auto [vw, replicas] = place_of(rank, l);
          // All shares are equal here.
          const auto factor =
              static_cast<float>(1.0 / replicas * (case_.minibatch[at(vw)] / samples));
          const float term =
              factor * statistic_of(rank, updates - 1, offset + static_cast<std::int64_t>(e));
          layer[e] = first ? term : layer[e] + term;
          first = false;
        }
      }
    }
    return all;
  }

  const Model& model() const { return model_; }

 private:
  struct Holder {
    int rank;
    std::int64_t offset;  // in its flat array
  };
  std::vector<Holder> holders(int layer, const std::vector<std::int64_t>& floats) const {
    std::vector<Holder> found;
    for (const auto& stages : case_.workers) {
      for (std::size_t k = 0; k < stages.size(); ++k) {
        if (layer < stages[k].first || layer >= stages[k].end) continue;
        for (const int rank : stages[k].ranks) {
          std::int64_t offset = 0;
          for (std::size_t j = 0; j <= k; ++j) {  // chunks of the same rank lie before
            if (std::find(stages[j].ranks.begin(), stages[j].ranks.end(), rank) ==
                stages[j].ranks.end())
              continue;
            const int end = j == k ? layer : stages[j].end;
            for (int l = stages[j].first; l < end; ++l) offset += floats[at(l)];
          }
          found.push_back({rank, offset});
        }
      }
    }
    return found;
  }
  std::pair<int, int> place_of(int rank, int layer) const {  // virtual worker, replicas
    for (std::size_t i = 0; i < case_.workers.size(); ++i) {
      for (const Planned& stage : case_.workers[i]) {
        const bool here =
            std::find(stage.ranks.begin(), stage.ranks.end(), rank) != stage.ranks.end();
        if (here && stage.first <= layer && layer < stage.end) {
          return {static_cast<int>(i), static_cast<int>(stage.ranks.size())};
        }
      }
    }
    return {-1, 0};
  }

  PartNumbers numbers() const {
    std::vector<int> stages;
    for (const auto& of : case_.workers) stages.push_back(static_cast<int>(of.size()));
    return {std::move(stages), 0};
  }

  GroupSynchronizer::Setup setup_of(int rank, StopCoordinator* stop) const {
    const auto parameters = floats_of_layers(model_, ShardMap::What::parameters);
    const auto statistics = floats_of_layers(model_, ShardMap::What::statistics);
    const ExchangePlan gradients{plan_, ranks_of_, parameters};
    const ExchangePlan means{plan_, ranks_of_, statistics};
    const auto scope = ExchangeScope::everybody;
    GroupSynchronizer::Setup setup{
        .member = {},
        .sums = {exchange_parts(gradients, scope, case_.ranks)[at(rank)],
                 exchange_parts(means, scope, case_.ranks)[at(rank)],
                 mean_factors(means, scope, case_.minibatch, 1, case_.ranks)[at(rank)]},
        .checkpoints = {.next = test::listed(case_.checkpoints)},
        .parts = numbers(),
        .coordinator = Rank{case_.workers[0][0].ranks[0]},
        .stop = stop};
    for (std::size_t i = 0; i < case_.workers.size(); ++i) {
      for (std::size_t k = 0; k < case_.workers[i].size(); ++k) {
        const Planned& stage = case_.workers[i][k];
        for (std::size_t r = 0; r < stage.ranks.size(); ++r) {
          if (stage.ranks[r] != rank) continue;
          setup.member.virtual_worker = VirtualWorkerId{static_cast<int>(i)};
          setup.member.replica = static_cast<int>(r);
          GroupMember::Stage& of = setup.member.stages.emplace_back();
          of.id = StageId{static_cast<int>(k)};
          for (int l = stage.first; l < stage.end; ++l) {
            of.parameters += parameters[at(l)];
            of.statistics += statistics[at(l)];
          }
        }
      }
    }
    return setup;
  }

  // Tokens instead of tensors: the rank's stages in turn, one minibatch after another.
  void pass(RankService& service, const GroupMember& member, Minibatch p, Channel channel) {
    const auto& stages = ranks_of_[at(member.virtual_worker.value)];
    const bool forward = channel == Channel::forward;
    const int last = forward ? static_cast<int>(stages.size()) - 1 : 0;
    std::vector<GroupMember::Stage> order = member.stages;
    if (!forward) std::reverse(order.begin(), order.end());
    static constexpr std::byte kToken[1] = {};
    for (const GroupMember::Stage& stage : order) {
      const int k = stage.id.value;
      const int from = forward ? k - 1 : k + 1;
      const int first = forward ? 0 : static_cast<int>(stages.size()) - 1;
      if (k != first) {
        for (const Rank rank : stages[at(from)]) {
          std::byte token[1];
          const Operation came = service.transport().receive(rank, channel, token);
          service.wait(came, [] { return std::string("a token"); });
          ASSERT_EQ(read_as<Token>(came.header()).minibatch, p);
        }
      }
      if (k == last) continue;
      for (const Rank rank : stages[at(forward ? k + 1 : k - 1)]) {
        service.transport().send(rank, channel, header_of(Token{p}), kToken);
      }
    }
  }

  void work(Transport& transport, Seen& seen) {
    WaveRules rules{.in_flight = case_.in_flight,
                    .distance = 0,
                    .pull = PullRule::bound,
                    .first_wave = 0,
                    .end = std::vector<Minibatch>(case_.workers.size(), case_.end)};
    RankService service(transport, test::patience(10));
    confirm_checkpoints(service);
    const int rank = transport.rank().value;
    const Rank coordinator{case_.workers[0][0].ranks[0]};
    std::unique_ptr<StopCoordinator> stop;
    std::unique_ptr<CheckpointCollector> collector;
    if (transport.rank() == coordinator) {
      stop = std::make_unique<StopCoordinator>(rules, RunAhead{.held = 1}, service);
      collector = std::make_unique<CheckpointCollector>(
          CheckpointCollector::Setup{
              .numbers = numbers(),
              .rule = {.next = test::listed(case_.checkpoints)},
              .unplayed = {},
              .complete = [&](CheckpointParts parts) { seen.checkpoints.push_back(parts); }},
          rules, service);
      service.also_poll([&] { collector->poll(); });
    }
    service.on<StopAt>([&](Rank, const StopAt& stop_at) {
      ASSERT_LE(seen.end, stop_at.before) << "informed too late";
      rules.stop_before(stop_at.before);
      service.send(coordinator, StopKnown{});
    });
    transport.exchange({});

    const auto device = make_device("reference", 1);
    const auto stream = device->make_stream();
    const GroupSynchronizer::Setup setup = setup_of(rank, stop.get());
    std::int64_t floats = 0, statistics = 0;
    for (const auto& stage : setup.member.stages) {
      floats += stage.parameters;
      statistics += stage.statistics;
    }
    seen.weights.resize(at(floats));
    DeviceTransport messages(transport, *device, *stream);
    GroupSynchronizer group(setup, rules, messages, service);
    for (Minibatch p = 0; p < rules.end.front(); ++p) {
      if (p == case_.stop_before && rank == case_.ranks - 1) {
        service.send(coordinator, StopRequest{.signal = 15});
      }
      group.before_forward(p);
      seen.end = p + 1;
      pass(service, setup.member, p, Channel::forward);
      pass(service, setup.member, p, Channel::backward);
      Buffer gradient(*device, *stream, at(floats) * sizeof(float), MemoryKind::gradients);
      for (std::int64_t e = 0; e < floats; ++e) gradient.as<float>()[e] = gradient_of(rank, p, e);
      group.reduce(p, gradient);
      group.finish_reduce(p);
      for (std::int64_t e = 0; e < floats; ++e) seen.weights[at(e)] += gradient.as<float>()[e];
      if (!rules.ends_wave(VirtualWorkerId{0}, p)) continue;
      const Label label = rules.wave_of(p) + 1;
      if (group.saves(label) == Saves::nothing) continue;
      StageState state{.label = label, .slots = {seen.weights}, .statistics = {}, .exact = {}};
      for (std::int64_t e = 0; e < statistics; ++e) {
        state.statistics.push_back(statistic_of(rank, p, e));
      }
      group.average_statistics(state.statistics);
      state.weights = seen.weights;
      group.save(state);
    }
    group.finish();
    if (collector) {
      service.wait([&] { return collector->finished(); }, [&] { return collector->waiting_for(); });
      over_ = true;
    }
    service.wait([&] { return over_.load(); }, [] { return std::string("the last checkpoint"); });
  }

  const Case& case_;
  Model model_;
  std::vector<PlanVirtualWorker> plan_;
  std::vector<std::vector<std::vector<Rank>>> ranks_of_;
  std::atomic<bool> over_ = false;
};

std::vector<float> joined(const std::vector<std::vector<float>>& layers, int first, int end) {
  std::vector<float> flat;
  for (int l = first; l < end; ++l) {
    flat.insert(flat.end(), layers[at(l)].begin(), layers[at(l)].end());
  }
  return flat;
}

std::vector<Case> cases() {
  return {
      {"alone", {{{0, 6, {0}}}}, {8}, 1, 2, 5, {2}},
      {"cuts_differ",
       {{{0, 1, {0}}, {1, 6, {1}}}, {{0, 4, {2}}, {4, 6, {3}}}},
       {8, 8},
       4,
       2,
       9,
       {1, 3}},
      {"replicas", {{{0, 3, {0, 1}}, {3, 6, {2}}}, {{0, 6, {3}}}}, {8, 24}, 4, 1, 6, {2, 5}},
      {"chunks",
       {{{0, 1, {0}}, {1, 3, {1}}, {3, 4, {0}}, {4, 6, {1}}}, {{0, 6, {2}}}},
       {4, 4},
       3,
       3,
       8,
       {1}},
      {"a_stage_without_parameters",
       {{{0, 6, {0}}}, {{0, 2, {1}}, {2, 3, {2}}, {3, 6, {3}}}},
       {8, 8},
       4,
       2,
       7,
       {}},
      {"stopped",
       {{{0, 3, {0, 1}}, {3, 6, {2}}}, {{0, 2, {3}}, {2, 6, {4}}}},
       {8, 8},
       5,
       2,
       400,
       {1},
       5},
      {"stopped_alone", {{{0, 6, {0}}}}, {8}, 1, 3, 400, {}, 7},
  };
}

class GroupSynchronizerTest : public testing::TestWithParam<Case> {};

TEST_P(GroupSynchronizerTest, AllHaveTheSerialProgramsWeights) {
  const Case& played = GetParam();
  Play play(played);
  const auto seen = play.run();
  if (testing::Test::HasFailure()) return;
  const Minibatch end = seen[0].end;
  if (played.stop_before < 0) {
    EXPECT_EQ(end, played.end);
  } else {
    EXPECT_LT(end, played.end);
    EXPECT_EQ(end % played.in_flight, 0);
  }
  const auto weights = play.weights(end);
  for (const auto& stages : played.workers) {
    std::map<int, std::vector<float>> of_rank;
    for (const Planned& stage : stages) {
      for (const int rank : stage.ranks) {
        const auto part = joined(weights, stage.first, stage.end);
        of_rank[rank].insert(of_rank[rank].end(), part.begin(), part.end());
      }
    }
    for (const auto& [rank, expected] : of_rank) {
      EXPECT_EQ(seen[at(rank)].end, end) << "rank " << rank;
      EXPECT_EQ(seen[at(rank)].weights, expected) << "rank " << rank;
    }
  }

  std::vector<Label> due = played.checkpoints, labels;
  due.push_back((end + played.in_flight - 1) / played.in_flight);
  for (const CheckpointParts& parts : seen[at(played.workers[0][0].ranks[0])].checkpoints) {
    labels.push_back(parts.label);
    const Minibatch updates = std::min(parts.label * played.in_flight, end);
    EXPECT_TRUE(parts.shards.empty());
    ASSERT_EQ(parts.workers.size(), 1u);
    ASSERT_EQ(parts.workers[0].size(), played.workers[0].size());
    for (std::size_t k = 0; k < parts.workers[0].size(); ++k) {
      const Planned& stage = played.workers[0][k];
      const StageState& state = parts.workers[0][k];
      EXPECT_EQ(state.label, parts.label);
      EXPECT_EQ(state.weights, joined(play.weights(updates), stage.first, stage.end));
      EXPECT_EQ(state.slots, std::vector<std::vector<float>>(1, state.weights));
      EXPECT_EQ(state.statistics, joined(play.statistics(updates), stage.first, stage.end));
    }
  }
  EXPECT_EQ(labels, due);
}

INSTANTIATE_TEST_SUITE_P(Runs, GroupSynchronizerTest, testing::ValuesIn(cases()),
                         [](const testing::TestParamInfo<Case>& named) {
                           return std::string(named.param.name);
                         });

}  // namespace group_synchronizer_test
}  // namespace hetpipe
