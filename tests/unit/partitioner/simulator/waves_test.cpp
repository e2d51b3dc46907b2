// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "../cases.h"
#include "partitioner/simulator/simulate.h"
#include "partitioner/simulator/timeline.h"

// Wave synchronous parallel on unequal virtual workers, against a recurrence written down from its
// rules (arXiv 2005.14038; docs/wsp.md) without schedules, engine or routes.
namespace hetpipe {
namespace waves_test {

// Links have a latency and no end of bandwidth, so that nobody waits for anybody's bytes.
struct Case {
  int in_flight = 1;    // Nm
  int distance = 0;     // D
  bool newest = false;  // pull; else bound
  int waves = 1;
  int extra = 0;       // minibatches of a last wave that is not complete
  double latency = 0;  // s, of every link
  bool steps = false;  // the servers have the optimizer
  // [virtual worker][stage]: s of one minibatch's F; B takes twice as long
  std::vector<std::vector<double>> forward;

  int minibatches() const { return waves * in_flight + extra; }
  int layers() const {
    std::size_t most = 1;
    for (const auto& stages : forward) most = std::max(most, stages.size());
    return static_cast<int>(most);
  }
  // Layers take turns on two servers: of the one with more of them.
  double step_seconds() const {
    const double parameters = static_cast<double>(kParameters) * ((layers() + 1) / 2);
    return steps ? 3e-9 * 1e6 + 11e-9 * (parameters - 1e6) : 0;
  }
  static constexpr std::int64_t kParameters = 20'000'000;  // of a layer
};

// When everything ends: F and B of [virtual worker][stage][minibatch].
struct Ends {
  std::vector<std::vector<std::vector<double>>> forward, backward;
  std::vector<std::vector<double>> decided;  // [virtual worker][wave]: the newest label of its gate
  std::vector<double> complete;              // [label]
};

int held(int in_flight, int stages, int stage) {
  if (stages == 1) return 1;
  if (stages == 2) return stage == 0 ? in_flight : 1;
  return std::min(in_flight, stages - stage);  // cases have no more in flight than stages
}

// One virtual worker from its start, when label L is complete at complete[L].
void play_worker(const Case& c, std::size_t vw, const std::vector<double>& complete, Ends& ends) {
  const auto stages = static_cast<int>(c.forward[vw].size());
  auto& forward = ends.forward[vw];
  auto& backward = ends.backward[vw];
  std::vector<int> next_forward(c.forward[vw].size(), 0), next_backward(c.forward[vw].size(), 0);
  std::vector<double> now(c.forward[vw].size(), 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (int k = 0; k < stages; ++k) {
      const auto s = static_cast<std::size_t>(k);
      const int f = next_forward[s];
      const int b = next_backward[s];
      const bool goes_forward = f < c.minibatches() && f < b + held(c.in_flight, stages, k);
      if (goes_forward) {
        if (k > 0 && next_forward[s - 1] <= f) continue;  // not sent yet
        double start = now[s];
        const auto p = static_cast<std::size_t>(f);
        if (k > 0) start = std::max(start, forward[s - 1][p] + c.latency);
        // The gate before the last minibatch of a wave, not of the first one: all waves below
        // label w - D. Stage 0 asks there; every stage's part of the snapshot comes by itself.
        // Where the label is the newest, a stage can ask for its part only when it knows it.
        const int wave = f / c.in_flight;
        const int label = wave - c.distance;
        const bool gate = f % c.in_flight == c.in_flight - 1;
        if (gate && wave > 0 && c.newest && c.distance > 0) {
          if (k == 0) {
            const double in = label > 0 ? complete[static_cast<std::size_t>(label)] : 0;
            const double decided = std::max(start + c.latency, in);
            ends.decided[vw][static_cast<std::size_t>(wave)] = decided;
            start = decided + c.latency;
          }
          start += 2 * c.latency;
        } else if (gate && label > 0) {
          const double in = complete[static_cast<std::size_t>(label)];
          if (k == 0) start = std::max(start + c.latency, in) + c.latency;
          start = std::max(start, in + c.latency);
        }
        now[s] = forward[s][p] = start + c.forward[vw][s];
        ++next_forward[s];
      } else if (b < c.minibatches()) {
        const auto p = static_cast<std::size_t>(b);
        if (k + 1 < stages && next_backward[s + 1] <= b) continue;
        double start = now[s];
        if (k + 1 < stages) start = std::max(start, backward[s + 1][p] + c.latency);
        now[s] = backward[s][p] = start + 2 * c.forward[vw][s];
        ++next_backward[s];
      } else {
        continue;
      }
      moved = true;
    }
  }
}

// Labels wait for workers and workers for labels of earlier waves: as many passes as there are
// waves settle it.
Ends recurrence(const Case& c) {
  Ends ends;
  for (const auto& stages : c.forward) {
    const std::vector<std::vector<double>> zeros(
        stages.size(), std::vector<double>(static_cast<std::size_t>(c.minibatches()), 0));
    ends.forward.push_back(zeros);
    ends.backward.push_back(zeros);
    ends.decided.emplace_back(static_cast<std::size_t>(c.waves) + 2, 0);
  }
  std::vector<double> complete(static_cast<std::size_t>(c.waves) + 2, 0);
  for (int pass = 0; pass <= c.waves + 1; ++pass) {
    for (std::size_t vw = 0; vw < c.forward.size(); ++vw) play_worker(c, vw, complete, ends);
    for (int wave = 0; wave * c.in_flight < c.minibatches(); ++wave) {
      const int last = std::min((wave + 1) * c.in_flight, c.minibatches()) - 1;
      double& in = complete[static_cast<std::size_t>(wave) + 1];
      for (const auto& of_worker : ends.backward) {
        for (const auto& stage : of_worker) {
          in = std::max(in, stage[static_cast<std::size_t>(last)] + c.latency + c.step_seconds());
        }
      }
    }
  }
  ends.complete = complete;
  return ends;
}

// Every stage on a node and a kind of its own; two servers on two more.
struct Planned {
  Plan plan;
  Cluster cluster;
  Profile profile;
};

Planned planned(const Case& c) {
  std::vector<std::vector<std::string>> nodes;
  std::map<std::string, double> seconds;
  const int layers = c.layers();
  Plan plan;
  plan.model = "chain";
  plan.in_flight = c.in_flight;
  for (const auto& stages : c.forward) {
    PlanVirtualWorker worker;
    for (std::size_t k = 0; k < stages.size(); ++k) {
      PlanStage stage;
      stage.first_layer = static_cast<int>(k);
      stage.end_layer = k + 1 == stages.size() ? layers : static_cast<int>(k) + 1;
      stage.devices = {{"n" + std::to_string(nodes.size()), 0}};
      const std::string kind = "k" + std::to_string(nodes.size());
      seconds[kind] = stages[k] / (stage.end_layer - stage.first_layer);
      nodes.push_back({kind});
      worker.stages.push_back(stage);
    }
    plan.virtual_workers.push_back(worker);
  }
  plan.server.emplace();
  plan.server->nodes = {"n" + std::to_string(nodes.size()), "n" + std::to_string(nodes.size() + 1)};
  plan.server->clock_distance = c.distance;
  plan.server->pull = c.newest ? "newest" : "bound";
  nodes.insert(nodes.end(), 2, {});
  Cluster cluster = test::cluster_of(nodes, 1'000'000'000);
  cluster.inter_node = {1e30, c.latency, false};
  std::vector<std::string> kinds;
  for (const auto& [kind, s] : seconds) kinds.push_back(kind);
  Planned of{plan, cluster, test::chain_of(layers, kinds, [&](const std::string& kind) {
               return seconds.at(kind);
             })};
  if (!c.steps) return of;
  of.plan.sync = "server-step";
  of.plan.optimizer = "adam";
  of.plan.server->scale = "mean";
  for (ProfileLayer& layer : of.profile.layers) {
    layer.parameter_bytes = Case::kParameters * static_cast<std::int64_t>(sizeof(float));
  }
  return of;
}

Simulation simulated(const Case& c) {
  const Planned of = planned(c);
  SimulationRequest request;
  request.minibatches = c.minibatches();
  request.keep_events = true;
  return simulate(of.plan, of.cluster, of.profile, request);
}

// Of a gate with the newest label: what was complete when it was decided, the wave itself at most.
Label newest_label(const Ends& ends, std::size_t vw, Wave wave) {
  Label label = 0;
  const double decided = ends.decided[vw][static_cast<std::size_t>(wave)];
  while (label < wave && ends.complete[static_cast<std::size_t>(label) + 1] <= decided) ++label;
  return label;
}

void expect_equal(const Case& c) {
  const Ends ends = recurrence(c);
  const Simulation s = simulated(c);
  int compared = 0;
  for (const SimulatedEvent& event : s.events) {
    const bool forward = event.action.kind == ActionKind::forward;
    if (!forward && event.action.kind != ActionKind::backward) continue;
    const SimulatedStage& row = s.stages[static_cast<std::size_t>(event.row)];
    const auto& of =
        (forward ? ends.forward : ends.backward)[static_cast<std::size_t>(row.virtual_worker)]
                                                [static_cast<std::size_t>(row.stage)];
    const double expected = of[static_cast<std::size_t>(event.action.minibatch)];
    ASSERT_NEAR(event.end, expected, 1e-9 * (1 + expected))
        << "virtual worker " << row.virtual_worker << " stage " << row.stage << " "
        << to_string(event.action) << ", Nm " << c.in_flight << ", D " << c.distance;
    ++compared;
  }
  ASSERT_EQ(compared, 2 * c.minibatches() * static_cast<int>(s.stages.size()));
}

// All spans and labels of the training.
void expect_timeline(const Case& c) {
  const Ends ends = recurrence(c);
  const Planned of = planned(c);
  const Timeline timeline(of.plan, of.cluster, of.profile, c.minibatches());
  for (std::size_t vw = 0; vw < c.forward.size(); ++vw) {
    const VirtualWorkerId id{static_cast<int>(vw)};
    for (std::size_t k = 0; k < c.forward[vw].size(); ++k) {
      const Timeline::Row& row = timeline.row(id, static_cast<int>(k), 0);
      double total = 0;
      for (Minibatch p = 0; p < c.minibatches(); ++p) {
        const auto span = row.of({.kind = ActionKind::backward, .minibatch = p});
        ASSERT_TRUE(span);
        ASSERT_NEAR(span->end, ends.backward[vw][k][static_cast<std::size_t>(p)],
                    1e-9 * (1 + span->end));
        const MinibatchTimes times = row.of(p);
        EXPECT_NEAR(times.forward, c.forward[vw][k], 1e-12);
        EXPECT_NEAR(times.backward, 2 * c.forward[vw][k], 1e-12);
        total += times.forward + times.backward + times.update + times.transfer + times.bubble +
                 times.server_wait;
      }
      ASSERT_NEAR(row.of(c.minibatches() - 1).end, total, 1e-9 * (1 + total));
    }
    for (Wave wave = 1; (wave + 1) * c.in_flight <= c.minibatches(); ++wave) {
      const auto label = timeline.label(id, wave);
      ASSERT_EQ(label.has_value(), c.newest && c.distance > 0);
      if (label) {
        ASSERT_EQ(*label, newest_label(ends, vw, wave)) << "gate " << wave;
      }
    }
  }
}

// One stage each, 3 s and 9 s a minibatch, waves of two. The gate of wave w stands before minibatch
// 2 w + 1 and waits for label w - D, which the slow one completes at 18 (w - D).
TEST(Waves, AFasterWorkerIsHeldAtTheGate) {
  Case c;
  c.in_flight = 2;
  c.waves = 6;
  c.forward = {{1}, {3}};
  const std::vector<std::vector<double>> last_of_wave{
      {6, 21, 39, 57, 75, 93},  // D = 0: 3 s after the label
      {6, 12, 21, 39, 57, 75},  //
      {6, 12, 18, 24, 39, 57},  // D = 2: at wave 3 label 1 is in since 18, it continues
      {6, 12, 18, 24, 30, 39}};
  for (int d = 0; d < 4; ++d) {
    c.distance = d;
    const Ends ends = recurrence(c);
    for (int w = 0; w < c.waves; ++w) {
      const auto p = static_cast<std::size_t>(2 * w + 1);
      EXPECT_DOUBLE_EQ(ends.backward[0][0][p],
                       last_of_wave[static_cast<std::size_t>(d)][static_cast<std::size_t>(w)])
          << "D " << d << " wave " << w;
      EXPECT_DOUBLE_EQ(ends.backward[1][0][p], 18 * (w + 1));  // never held
    }
    expect_equal(c);
  }
}

TEST(Waves, EqualTheRecurrenceOnRandomWorkers) {
  std::mt19937 random(11);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  const auto real = [&](double most) {
    return most * std::generate_canonical<double, 53>(random) + 0.05;
  };
  for (int i = 0; i < 400; ++i) {
    Case c;
    c.distance = i % 4;
    c.in_flight = 1 + below(4);
    c.waves = 2 + below(6);
    c.extra = below(c.in_flight);
    c.latency = below(3) == 0 ? 0 : real(0.4);
    const int workers = 1 + below(4);
    for (int vw = 0; vw < workers; ++vw) {
      // held() knows of more in flight than stages with one or two of them alone.
      std::vector<int> depths{1, 2};
      for (int d = std::max(3, c.in_flight); d <= 5; ++d) depths.push_back(d);
      const auto depth = static_cast<std::size_t>(
          depths[static_cast<std::size_t>(below(static_cast<int>(depths.size())))]);
      c.forward.emplace_back();
      const double slow = 1 + below(3);
      for (std::size_t k = 0; k < depth; ++k) c.forward.back().push_back(slow * real(1));
    }
    c.newest = (i / 4) % 2 == 1;
    c.steps = i % 5 == 4;
    expect_equal(c);
    if (c.waves >= 2 && c.extra == 0) expect_timeline(c);
    if (HasFatalFailure()) FAIL() << "case " << i;
  }
}

// The slow one sees every wave that is in, the fast one stands at its bound.
TEST(Waves, LabelsAreAsOldAsTheirGatesFindThem) {
  Case c;
  c.in_flight = 2;
  c.forward = {{1}, {3}};
  const auto age = [&] {
    const Planned of = planned(c);
    return simulate(of.plan, of.cluster, of.profile, {}).label_age;
  };
  EXPECT_EQ(age(), 0);
  c.distance = 3;
  EXPECT_EQ(age(), 3);
  c.newest = true;
  EXPECT_EQ(age(), 1.5);
}

// A fast and a slow one far beyond what is simulated: the slow one sets the pace, and the fast one
// stands at its bound.
TEST(Waves, ALongTrainingRepeatsItsSteadyPart) {
  Case c;
  c.in_flight = 2;
  c.distance = 3;
  c.newest = true;
  c.forward = {{1}, {3}};
  const Planned of = planned(c);
  constexpr Minibatch kMany = 3'000'000;
  const Timeline timeline(of.plan, of.cluster, of.profile, kMany);
  EXPECT_NEAR(timeline.seconds(), 9.0 * kMany, 1e-6 * kMany);
  const Timeline::Row& fast = timeline.row(VirtualWorkerId{0}, 0, 0);
  for (const Minibatch p : {Minibatch{1'000'000}, kMany / 2, kMany - 2}) {
    EXPECT_NEAR(fast.of(p + 1).end - fast.of(p - 1).end, 18, 1e-6) << p;
    EXPECT_EQ(timeline.label(VirtualWorkerId{0}, p / 2), p / 2 - 3);
    EXPECT_EQ(timeline.label(VirtualWorkerId{1}, p / 2), p / 2);
  }
}

}  // namespace waves_test
}  // namespace hetpipe
