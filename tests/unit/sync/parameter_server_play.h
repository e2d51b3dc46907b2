// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <numeric>

#include "base/index.h"
#include "base/random.h"
#include "kernels/devices.h"
#include "runtime/model/parameters.h"
#include "runtime/pipeline/stage.h"
#include "runtime/sync/exchange_parts.h"
#include "runtime/sync/parameter_server.h"
#include "runtime/sync/server_client.h"
#include "runtime/transport/device_transport.h"
#include "runtime/transport/threads.h"
#include "tests/main/patience.h"
#include "tests/unit/sync/listed_labels.h"
#include "tests/unit/sync/on_threads.h"
#include "tests/unit/sync/parameter_server_case.h"

// Parameter server and its clients, ranks as threads. Updates are whole numbers, different for
// every virtual worker, wave and weight, and never zero: each weight of a snapshot tells by itself
// which label it is of, so a mix of labels is seen.
namespace hetpipe {
namespace parameter_server_test {

constexpr int kSlots = 2;

// What one rank saw.
struct Seen {
  int wrong_weights = 0;
  int wrong_statistics = 0;
  int pulls = 0;
  std::int64_t most_snapshots = 0;
  std::vector<CheckpointParts> checkpoints;
};

// Which ranks read each other's memory: between some pairs pushes and pulls are messages then,
// between others not.
enum class Reach { none, some, all };

class Play {
 public:
  explicit Play(const Case& played, Reach reach = Reach::none,
                ElementType pushed = ElementType::fp32)
      : case_(played),
        reach_(reach),
        pushed_(pushed),
        model_(small_model()),
        map_(model_, played.shard_of_layer, played.shards),
        expected_(played, model_) {
    int rank = 0;
    for (const auto& ends : played.stage_end) {
      const std::size_t i = worker_ranks_.size();
      worker_ranks_.emplace_back();
      PlanVirtualWorker& planned = plan_.emplace_back();
      for (std::size_t k = 0; k < ends.size(); ++k) {
        const int replicas = played.replicas.empty() ? 1 : played.replicas[i][k];
        worker_ranks_.back().emplace_back();
        for (int r = 0; r < replicas; ++r) worker_ranks_.back().back().push_back(Rank{rank++});
        PlanStage& stage = planned.stages.emplace_back();
        stage.first_layer = k == 0 ? 0 : ends[k - 1];
        stage.end_layer = ends[k];
        stage.devices.resize(at(replicas));
      }
    }
    for (int s = 0; s < played.shards; ++s)
      server_ranks_.push_back(Rank{played.hosted ? s : rank++});
    ranks_ = rank;
  }

  std::vector<Seen> run() {
    std::vector<Seen> seen(at(ranks_));
    test::on_threads(ranks_, [&](Transport& rank) { run_rank(rank, seen[at(rank.rank().value)]); });
    return seen;
  }

  void check_checkpoints(const std::vector<CheckpointParts>& checkpoints) const {
    std::vector<Label> due = case_.checkpoint_labels, labels;
    if (due.empty() || due.back() != case_.rules.end_label())
      due.push_back(case_.rules.end_label());
    for (const CheckpointParts& parts : checkpoints) {
      const Label label = parts.label;
      labels.push_back(label);
      ASSERT_EQ(parts.shards.size(), at(case_.shards));
      for (int s = 0; s < case_.shards; ++s) {
        SCOPED_TRACE(testing::Message() << "label " << label << " shard " << s);
        const ShardSnapshot& state = parts.shards[at(s)].snapshot;
        EXPECT_EQ(state.label, label);
        std::vector<float> weights, statistics;
        for (auto g : Expected::places(expected_.parameters, map_.layers(ShardId{s}))) {
          weights.push_back(expected_.weight(label, g));
        }
        for (auto g : Expected::places(expected_.statistics, map_.layers(ShardId{s}))) {
          statistics.push_back(expected_.mean_statistic(label, g));
        }
        EXPECT_EQ(state.weights, weights);
        EXPECT_EQ(state.statistics, statistics);
      }
      check_workers(parts);
    }
    EXPECT_EQ(labels, due);
  }

 private:
  // Each stage's part is that of its newest wave below the label.
  void check_workers(const CheckpointParts& parts) const {
    ASSERT_EQ(parts.workers.size(), worker_ranks_.size());
    for (int i = 0; i < case_.rules.workers(); ++i) {
      const VirtualWorkerId vw{i};
      ASSERT_EQ(parts.workers[at(i)].size(), worker_ranks_[at(i)].size());
      const Label label = std::min(parts.label, case_.rules.end_wave(vw));
      for (int k = 0; k < static_cast<int>(worker_ranks_[at(i)].size()); ++k) {
        SCOPED_TRACE(testing::Message() << "virtual worker " << i << " stage " << k);
        EXPECT_EQ(parts.workers[at(i)][at(k)], state_of(i, k, label));
      }
    }
  }

  StageState state_of(int vw, int k, Label label) const {
    const int first = k == 0 ? 0 : case_.stage_end[at(vw)][at(k - 1)];
    std::vector<int> layers(at(case_.stage_end[at(vw)][at(k)] - first));
    std::iota(layers.begin(), layers.end(), first);
    StageState state{.label = label, .slots = {}, .statistics = {}, .exact = {}};
    const bool none = label == case_.rules.first_wave;
    for (int s = 0; s < kSlots; ++s) {
      std::vector<float>& slot = state.slots.emplace_back();
      for (auto g : Expected::places(expected_.parameters, layers)) {
        slot.push_back(none ? Expected::initial_slot(s, g) : Expected::slot(vw, label - 1, s, g));
      }
    }
    for (auto g : Expected::places(expected_.statistics, layers)) {
      state.statistics.push_back(none ? Expected::initial_statistic(g)
                                      : Expected::statistic(vw, label - 1, g));
    }
    return state;
  }

  void run_rank(Transport& transport, Seen& seen) {
    RankService service(transport, test::patience(10));
    SharedBlocks blocks(service, in_reach(transport));
    confirm_checkpoints(service);
    std::unique_ptr<ParameterServer> server;
    std::unique_ptr<CheckpointCollector> collector;
    if (server_ranks_.front() == transport.rank()) {
      collector = std::make_unique<CheckpointCollector>(
          CheckpointCollector::Setup{
              .numbers = numbers(),
              .rule = {.next = test::listed(case_.checkpoint_labels)},
              .unplayed =
                  [this](VirtualWorkerId vw, StageId k) {
                    return state_of(vw.value, k.value, case_.rules.first_wave);
                  },
              .complete = [&seen](CheckpointParts parts) { seen.checkpoints.push_back(parts); },
              .empty_shards = map_.empty_shards()},
          case_.rules, service);
      service.also_poll([&] { collector->poll(); });
    }
    for (int s = 0; s < case_.shards; ++s) {
      if (server_ranks_[at(s)] == transport.rank())
        server = make_server(ShardId{s}, service, blocks);
    }
    if (server) {
      service.also_poll([&] {
        server->poll();
        seen.most_snapshots = std::max(seen.most_snapshots, server->snapshots_held());
      });
    }
    for (std::size_t i = 0; i < worker_ranks_.size(); ++i) {
      for (std::size_t k = 0; k < worker_ranks_[i].size(); ++k) {
        for (std::size_t r = 0; r < worker_ranks_[i][k].size(); ++r) {
          if (worker_ranks_[i][k][r] == transport.rank()) {
            work(static_cast<int>(i), static_cast<int>(k), static_cast<int>(r), service, blocks,
                 seen);
          }
        }
      }
    }
    if (server) {
      service.wait([&] { return server->finished(); }, [&] { return server->waiting_for(); });
    }
    if (collector) {
      service.wait([&] { return collector->finished(); }, [&] { return collector->waiting_for(); });
      over_ = true;
    }
    // Until then every rank may be asked whether it is still there.
    service.wait([&] { return over_.load(); }, [] { return std::string("the last checkpoint"); });
  }

  std::vector<bool> in_reach(Transport& transport) const {
    if (reach_ == Reach::none) return {};
    std::vector<bool> reach =
        ranks_in_reach(transport, std::vector<std::string>(at(ranks_), "here"));
    EXPECT_EQ(reach, std::vector<bool>(at(ranks_), true));
    for (int r = 0; r < ranks_ && reach_ == Reach::some; ++r) {
      reach[at(r)] = (transport.rank().value + r) % 2 == 1;
    }
    return reach;
  }

  PartNumbers numbers() const {
    std::vector<int> stages;
    for (const auto& ends : case_.stage_end) stages.push_back(static_cast<int>(ends.size()));
    return {std::move(stages), case_.shards};
  }

  std::unique_ptr<ParameterServer> make_server(ShardId shard, RankService& service,
                                               SharedBlocks& blocks) {
    ServerSetup setup;
    setup.shard = shard;
    setup.server_ranks = server_ranks_;
    setup.worker_ranks = worker_ranks_;
    setup.stage_end = case_.stage_end;
    setup.update_factor = case_.factor;
    setup.checkpoints.next = test::listed(case_.checkpoint_labels);
    setup.part = numbers().of_shard(shard);
    ShardSnapshot& initial = setup.snapshots.emplace_back();
    initial.label = case_.rules.first_wave;
    for (auto g : Expected::places(expected_.parameters, map_.layers(shard))) {
      initial.weights.push_back(Expected::initial(g));
    }
    for (auto g : Expected::places(expected_.statistics, map_.layers(shard))) {
      initial.statistics.push_back(Expected::initial_statistic(g));
    }
    setup.ema = 0.5;
    setup.pushed = pushed_;
    initial.average = initial.weights;
    setup.running.assign(case_.stage_end.size(), initial.statistics);
    return std::make_unique<ParameterServer>(std::move(setup), case_.rules, map_, service, blocks);
  }

  StageReplica replica_of(int vw, int k, int r) const {
    const auto sums = [&](ShardMap::What what) {
      const ExchangePlan plan{plan_, worker_ranks_, floats_of_layers(model_, what)};
      return std::pair(exchange_parts(plan, ExchangeScope::virtual_worker, ranks_),
                       mean_factors(plan, ExchangeScope::virtual_worker,
                                    std::vector<int>(plan_.size(), 12), 1, ranks_));
    };
    const std::vector<Rank>& ranks = worker_ranks_[at(vw)][at(k)];
    const std::size_t rank = at(ranks[at(r)].value);
    const auto [statistics, factors] = sums(ShardMap::What::statistics);
    return {.number = r,
            .ranks = ranks,
            .sums = {.gradients = sums(ShardMap::What::parameters).first[rank],
                     .statistics = statistics[rank],
                     .factors = factors[rank]}};
  }

  // A stage without its arithmetic: gates, pulls and pushes in the executor's order.
  void work(int vw, int k, int r, RankService& service, SharedBlocks& blocks, Seen& seen) {
    const WaveRules& rules = case_.rules;
    const auto device = make_device("reference", 1);
    const auto stream = device->make_stream();
    Stage stage(model_, case_.stage_end[at(vw)], StageId{k}, 1, *device, *stream);
    CheckpointSender parts(server_ranks_.front(),
                           numbers().of_stage(VirtualWorkerId{vw}, StageId{k}), service);
    DeviceTransport messages(service.transport(), *device, *stream);
    GateLabels gates(service);
    ServerClient client(VirtualWorkerId{vw}, stage, rules, map_, server_ranks_,
                        {.next = test::listed(case_.checkpoint_labels)}, parts, messages, service,
                        gates, blocks, replica_of(vw, k, r), nullptr, pushed_);
    std::vector<int> layers(at(stage.end_layer() - stage.first_layer()));
    std::iota(layers.begin(), layers.end(), stage.first_layer());
    const auto weights_at = Expected::places(expected_.parameters, layers);
    const auto statistics_at = Expected::places(expected_.statistics, layers);
    const auto check = [&](const StageSnapshot& snapshot) {
      ++seen.pulls;
      for (std::size_t e = 0; e < weights_at.size(); ++e) {
        seen.wrong_weights +=
            snapshot.weights.as<float>()[e] != expected_.weight(snapshot.label, weights_at[e]);
      }
      if (!snapshot.statistics) return;
      for (std::size_t e = 0; e < statistics_at.size(); ++e) {
        seen.wrong_statistics += snapshot.statistics.as<float>()[e] !=
                                 expected_.mean_statistic(snapshot.label, statistics_at[e]);
      }
    };
    const auto check_average = [&](Wave gate, Label label) {
      const StageSnapshot snapshot =
          client.pull(gate, label, WithStatistics::no, WeightsFor::evaluation_by_average);
      for (std::size_t e = 0; e < weights_at.size(); ++e) {
        seen.wrong_weights +=
            snapshot.weights.as<float>()[e] != expected_.average(label, weights_at[e]);
      }
    };
    // Some where servers in reach read them, some elsewhere.
    const auto buffer_of = [&](Wave wave, ElementType type) {
      const std::size_t bytes = weights_at.size() * bytes_of(type);
      const auto array = blocks.take(std::ssize(weights_at));
      return wave % 2 == 0 ? Buffer(*device, *stream, bytes, MemoryKind::messages)
                           : Buffer(*device, *stream, reinterpret_cast<std::byte*>(array.get()),
                                    bytes, MemoryKind::messages, array);
    };

    std::uint64_t draws = 0;
    const auto dawdle = [&] {
      const double most = vw == case_.slow_worker ? 3000 : 400;
      const double share = random_uniform(random_key({7, at(vw), at(k), at(r)}), draws++);
      const auto until = std::chrono::steady_clock::now() +
                         std::chrono::microseconds(static_cast<int>(most * share));
      service.wait([&] { return std::chrono::steady_clock::now() >= until; },
                   [] { return std::string("time"); });
    };
    const Minibatch end = rules.end[at(vw)];
    const auto has_gate = [&](Wave wave) {
      return wave > rules.first_wave && rules.gate_of(wave) < end;
    };
    for (Wave wave = rules.first_wave; wave < rules.end_wave(VirtualWorkerId{vw}); ++wave) {
      dawdle();
      if (has_gate(wave)) {
        std::optional<StageSnapshot> evaluated;
        const Label oldest = rules.bound_label(wave);
        const auto& evaluations = case_.evaluation_labels;
        if (std::find(evaluations.begin(), evaluations.end(), oldest) != evaluations.end()) {
          // Before the weights that were requested ahead, or after them.
          if (wave % 2 == 0) check_average(wave, oldest);
          evaluated = client.pull(wave, oldest, WithStatistics::yes, WeightsFor::training);
          check(*evaluated);
          if (wave % 2 == 1) check_average(wave, oldest);
        }
        const Label label =
            k == 0 ? pass_gate(client, vw, wave, service) : hear_label(vw, wave, service);
        EXPECT_GE(label, oldest);
        EXPECT_LE(label, wave);
        if (!evaluated || evaluated->label != label)
          check(client.pull(wave, label, WithStatistics::no, WeightsFor::training));
        dawdle();
      }
      // Of replicas the terms, and the statistics around their mean, differ.
      const int replicas = static_cast<int>(worker_ranks_[at(vw)][at(k)].size());
      Buffer term = buffer_of(wave, ElementType::fp32);
      for (std::size_t e = 0; e < weights_at.size(); ++e) {
        term.as<float>()[e] =
            r == 0 ? Expected::delta(vw, wave, weights_at[e]) - static_cast<float>(replicas - 1)
                   : 1.0f;
      }
      client.reduce(wave, term);
      client.finish_reduce(wave);
      if (pushed_ == ElementType::bf16) {
        Buffer halves = buffer_of(wave, pushed_);
        device->convert(*stream, halves.data(), pushed_, term.data(), ElementType::fp32,
                        std::ssize(weights_at));
        term = std::move(halves);
      }
      auto sum = std::make_shared<const Buffer>(std::move(term));
      std::vector<float> statistics;
      for (auto g : statistics_at) {
        statistics.push_back(Expected::statistic(vw, wave, g) +
                             static_cast<float>(4 * (2 * r - replicas + 1)));
      }
      client.push(wave, std::move(sum), statistics);
      if (client.saves(wave + 1) != Saves::nothing) client.save(state_of(vw, k, wave + 1));
      if (rules.pull == PullRule::bound && has_gate(wave + 1))
        client.prefetch(wave + 1, rules.bound_label(wave + 1));
    }
    check(client.pull(rules.end_label() + rules.distance + 1, rules.end_label(),
                      WithStatistics::yes, WeightsFor::training));
    check_average(rules.end_label() + rules.distance + 1, rules.end_label());
    client.finish();
  }

  // The label travels with the last minibatch of its wave, from the first stage to the others.
  Label pass_gate(ServerClient& client, int vw, Wave wave, RankService& service) {
    const Label label = client.pass_gate(wave);
    static constexpr std::byte kNothing[1] = {};
    const auto& stages = worker_ranks_[at(vw)];
    if (service.transport().rank() != stages[0][0]) return label;
    for (std::size_t k = 1; k < stages.size(); ++k) {
      for (const Rank rank : stages[k]) {
        const ActivationsSent sent{.of = {.minibatch = wave, .micro = 0, .stage = {}},
                                   .label = label};
        service.transport().send(rank, Channel::forward, header_of(sent), kNothing);
      }
    }
    return label;
  }
  Label hear_label(int vw, Wave wave, RankService& service) {
    std::byte nothing[1];
    const Operation heard =
        service.transport().receive(worker_ranks_[at(vw)][0][0], Channel::forward, nothing);
    service.wait(heard, [] { return std::string("the label"); });
    const auto sent = read_as<ActivationsSent>(heard.header());
    EXPECT_EQ(sent.of.minibatch, wave);
    return sent.label;
  }

  const Case& case_;
  Reach reach_;
  ElementType pushed_;  // what is pushed are whole numbers that a bf16 holds, too
  Model model_;
  ShardMap map_;
  Expected expected_;
  std::vector<PlanVirtualWorker> plan_;
  std::vector<std::vector<std::vector<Rank>>> worker_ranks_;
  std::vector<Rank> server_ranks_;
  std::atomic<bool> over_ = false;
  int ranks_ = 0;
};

}  // namespace parameter_server_test
}  // namespace hetpipe
