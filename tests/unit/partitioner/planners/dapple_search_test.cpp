// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/dapple_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace hetpipe {
namespace dapple_search_test {

// --- brute force, by the definition alone ---

enum class Held { pa, pb };  // K_i = min(S-i, M), min(2(S-i)-1, M)

struct Case {
  DappleModel model;
  DapplePool pool;
  DappleRequest request;
  // A memory rule of its own, in the shape of the ledger's.
  std::vector<double> memory;  // [kind]
  RunningSum stash_bytes;
  std::vector<double> working_bytes;  // [layer]
  Held held = Held::pa;
  bool recomputes = true;  // where it is needed
};

// Of one or two kinds of device. Every third round has little memory.
Case random_case(std::mt19937& random, int round, int least_layers = 2, int most_devices = 5) {
  std::uniform_real_distribution<double> some(0, 1);
  Case c;
  const int layers = least_layers + static_cast<int>(random() % 4);
  const std::size_t kinds = 1 + random() % 2;
  for (std::size_t k = 0; k < kinds; ++k) {
    RunningSum forward{0};
    RunningSum backward{0};
    for (int l = 0; l < layers; ++l) {
      forward.push_back(forward.back() + 0.1 + some(random));
      backward.push_back(backward.back() + 0.1 + 2 * some(random));
    }
    c.model.forward.push_back(forward);
    c.model.backward.push_back(backward);
    c.memory.push_back(round % 3 == 0 ? 4 + 12 * some(random) : 1e9);
  }
  c.model.parameter_bytes = {0};
  c.stash_bytes = {0};
  for (int l = 0; l < layers; ++l) {
    c.model.parameter_bytes.push_back(c.model.parameter_bytes.back() + some(random));
    c.stash_bytes.push_back(c.stash_bytes.back() + 4 * some(random));
    c.model.crossing_bytes.push_back(l == 0 ? 0 : some(random));
    c.working_bytes.push_back(0.2 * some(random));
  }
  const std::size_t nodes = 1 + random() % 3;
  int devices = 0;
  for (std::size_t n = 0; n < nodes; ++n) {
    c.pool.nodes.emplace_back();
    for (std::size_t d = 0; d <= random() % 3 && devices < most_devices; ++d, ++devices) {
      c.pool.nodes.back().push_back(static_cast<int>(random() % kinds));
    }
  }
  c.pool.intra_bandwidth = 5 + 10 * some(random);
  c.pool.inter_bandwidth = 1 + 3 * some(random);
  c.pool.intra_latency = 0.01 * some(random);
  c.pool.inter_latency = 0.1 * some(random);
  c.request.micro_batches = 1 + static_cast<int>(random() % 6);
  c.request.most_replicas = 2 + static_cast<int>(random() % 5);
  c.held = random() % 2 == 0 ? Held::pa : Held::pb;
  if (random() % 4 == 0) c.recomputes = false;
  if (devices == 4 && random() % 2 == 0) c.request.unit = 2;
  return c;
}

struct Gpu {
  int node = 0;
  int kind = 0;
  bool operator==(const Gpu&) const = default;
};

struct PlannedStage {
  int first = 0;
  int end = 0;
  std::vector<Gpu> gpus;
  bool recompute = false;
};

double part(const RunningSum& sum, const PlannedStage& s) {
  return sum[static_cast<std::size_t>(s.end)] - sum[static_cast<std::size_t>(s.first)];
}

std::vector<double> shares(const DappleModel& model, const PlannedStage& s) {
  std::vector<double> speed;
  for (const Gpu& gpu : s.gpus) {
    const auto k = static_cast<std::size_t>(gpu.kind);
    speed.push_back(1 / (part(model.forward[k], s) + part(model.backward[k], s)));
  }
  const double all = std::accumulate(speed.begin(), speed.end(), 0.0);
  for (double& share : speed) share /= all;
  return speed;
}

// Sets `recompute` where it is needed; false where a stage does not fit.
bool settle(const Case& c, std::span<PlannedStage> stages) {
  constexpr double kState = 3;  // weights, gradients, momentum: multiples of the parameters
  const DappleModel& m = c.model;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    PlannedStage& s = stages[i];
    const int behind = static_cast<int>(stages.size() - i);
    const int held =
        std::min(c.held == Held::pa ? behind : 2 * behind - 1, c.request.micro_batches);
    const double in = s.first == 0 ? 0 : m.crossing_bytes[static_cast<std::size_t>(s.first)];
    const double out = s.end == m.layers() ? 0 : m.crossing_bytes[static_cast<std::size_t>(s.end)];
    double working = 0;
    for (int l = s.first; l < s.end; ++l) {
      working = std::max(working, c.working_bytes[static_cast<std::size_t>(l)]);
    }
    const auto share = shares(m, s);
    for (std::size_t g = 0; g < s.gpus.size(); ++g) {
      const double room =
          c.memory[static_cast<std::size_t>(s.gpus[g].kind)] - kState * part(m.parameter_bytes, s);
      const double moving = (held + 2) * in + 2 * out + working;
      if (share[g] * (moving + held * part(c.stash_bytes, s)) <= room) continue;
      s.recompute = true;
      if (!c.recomputes) return false;
      if (share[g] * (moving + part(c.stash_bytes, s)) > room) return false;
    }
  }
  return true;
}

// The same of the search's stages.
bool settle_stages(const Case& c, std::span<DappleStage> stages) {
  std::vector<PlannedStage> planned;
  for (const DappleStage& stage : stages) {
    planned.push_back({stage.first_layer, stage.end_layer, {}, false});
    for (const auto& run : stage.devices) {
      for (int d = run.begin; d < run.begin + run.count; ++d) {
        planned.back().gpus.push_back(
            {run.node,
             c.pool.nodes[static_cast<std::size_t>(run.node)][static_cast<std::size_t>(d)]});
      }
    }
  }
  if (!settle(c, planned)) return false;
  for (std::size_t i = 0; i < stages.size(); ++i) stages[i].recompute = planned[i].recompute;
  return true;
}

class DappleBruteForce {
 public:
  explicit DappleBruteForce(const Case& c) : c_(c), m_(c.model) {
    for (std::size_t n = 0; n < c.pool.nodes.size(); ++n) {
      free_.emplace_back();
      for (const int kind : c.pool.nodes[n]) free_.back().push_back({static_cast<int>(n), kind});
    }
  }

  double best() {
    grow({}, 0, free_);
    return best_;
  }

 private:
  using Free = std::vector<std::vector<Gpu>>;  // [node], in order

  void grow(const std::vector<PlannedStage>& stages, int layer, const Free& free) {
    std::vector<Gpu> rest;
    for (const auto& node : free) rest.insert(rest.end(), node.begin(), node.end());
    auto whole = stages;
    whole.push_back({layer, m_.layers(), rest, false});
    judge(whole);
    for (int need = c_.request.unit; need < static_cast<int>(rest.size());
         need += c_.request.unit) {
      for (int policy = 0; policy < 3; ++policy) {
        Free after = free;
        std::vector<Gpu> taken = take(after, need, policy);
        for (int end = layer + 1; end < m_.layers(); ++end) {
          auto longer = stages;
          longer.push_back({layer, end, taken, false});
          grow(longer, end, after);
        }
      }
    }
  }

  // 0: fresh nodes first; 1: nodes in use first; 2: one of each node in turn.
  std::vector<Gpu> take(Free& free, int need, int policy) const {
    std::vector<Gpu> taken;
    const Free before = free;
    const auto pop = [&](std::size_t n) {
      taken.push_back(free[n].front());
      free[n].erase(free[n].begin());
    };
    if (policy == 2) {
      while (static_cast<int>(taken.size()) < need) {
        for (std::size_t n = 0; n < free.size(); ++n) {
          if (!free[n].empty() && static_cast<int>(taken.size()) < need) pop(n);
        }
      }
      return taken;
    }
    for (int pass = 0; pass < 2; ++pass) {
      for (std::size_t n = 0; n < free.size(); ++n) {
        const bool fresh = before[n].size() == c_.pool.nodes[n].size();
        if (fresh != ((policy == 0) == (pass == 0))) continue;
        while (!free[n].empty() && static_cast<int>(taken.size()) < need) pop(n);
      }
    }
    return taken;
  }

  void judge(std::vector<PlannedStage> stages) {
    const auto count = stages.size();
    const int micro_batches = c_.request.micro_batches;
    for (const PlannedStage& s : stages) {
      if (static_cast<int>(s.gpus.size()) > c_.request.most_replicas) return;
    }
    if (!settle(c_, stages)) return;
    std::vector<double> f;
    std::vector<double> b;
    std::vector<double> ar;
    for (std::size_t i = 0; i < count; ++i) {
      const PlannedStage& s = stages[i];
      if (i > 0) {
        f.push_back(transfer(stages[i - 1], s));
        b.push_back(f.back());
        ar.push_back(0);
      }
      const auto share = shares(m_, s);
      double forward = 0;
      double backward = 0;
      bool cross = false;
      for (std::size_t g = 0; g < s.gpus.size(); ++g) {
        const auto k = static_cast<std::size_t>(s.gpus[g].kind);
        const double own = share[g] * part(m_.forward[k], s);
        forward = std::max(forward, own);
        backward = std::max(backward, share[g] * part(m_.backward[k], s) + (s.recompute ? own : 0));
        cross = cross || s.gpus[g].node != s.gpus[0].node;
      }
      f.push_back(forward);
      b.push_back(backward);
      const double n = static_cast<double>(s.gpus.size());
      const double bytes = 2 * (n - 1) / n * part(m_.parameter_bytes, s);
      ar.push_back(n == 1  ? 0
                   : cross ? bytes / c_.pool.inter_bandwidth + 2 * (n - 1) * c_.pool.inter_latency
                           : bytes / c_.pool.intra_bandwidth + 2 * (n - 1) * c_.pool.intra_latency);
    }
    best_ = std::min(best_, latency(f, b, ar, micro_batches));
  }

  // Sample by sample: each device sends a part to each device of the next stage.
  double transfer(const PlannedStage& from, const PlannedStage& to) const {
    const double bytes = m_.crossing_bytes[static_cast<std::size_t>(to.first)];
    const auto give = shares(m_, from);
    const auto get = shares(m_, to);
    const std::size_t nodes = c_.pool.nodes.size();
    std::vector<double> leaves(nodes, 0);
    std::vector<double> comes(nodes, 0);
    std::vector<double> stays(nodes, 0);
    for (std::size_t i = 0; i < give.size(); ++i) {
      for (std::size_t j = 0; j < get.size(); ++j) {
        const auto a = static_cast<std::size_t>(from.gpus[i].node);
        const auto z = static_cast<std::size_t>(to.gpus[j].node);
        const double amount = give[i] * get[j] * bytes;
        if (a == z) {
          stays[a] += amount;
        } else {
          leaves[a] += amount;
          comes[z] += amount;
        }
      }
    }
    double seconds = 0;
    bool cross = false;
    for (std::size_t n = 0; n < nodes; ++n) {
      seconds = std::max({seconds, leaves[n] / c_.pool.inter_bandwidth,
                          comes[n] / c_.pool.inter_bandwidth, stays[n] / c_.pool.intra_bandwidth});
      cross = cross || leaves[n] > 0;
    }
    return seconds + (cross ? c_.pool.inter_latency : c_.pool.intra_latency);
  }

  static double latency(const std::vector<double>& f, const std::vector<double>& b,
                        const std::vector<double>& ar, int m) {
    const int count = static_cast<int>(f.size());
    const auto x = [&](int s) {
      return f[static_cast<std::size_t>(s)] + b[static_cast<std::size_t>(s)];
    };
    int q = count - 1;
    for (int s = q - 1; s >= 0; --s) {
      double l2 = (m - 1) * x(q);
      for (int t = s + 1; t < q; ++t) l2 += x(t);
      if ((m - 1) * x(s) > l2) q = s;
    }
    double warm_up = 0;
    for (int s = 0; s <= q; ++s) warm_up += f[static_cast<std::size_t>(s)];
    double ending = -1e30;
    for (int s = 0; s < count; ++s) {
      double shift = 0;
      for (int a = std::min(s, q); a <= std::max(s, q); ++a)
        shift += b[static_cast<std::size_t>(a)];
      ending = std::max(ending, ar[static_cast<std::size_t>(s)] + (s > q ? -shift : shift));
    }
    return warm_up + (m - 1) * x(q) + ending;
  }

  const Case& c_;
  const DappleModel& m_;
  Free free_;
  double best_ = std::numeric_limits<double>::infinity();
};

TEST(DappleSearch, EqualToBruteForceOnSmallCases) {
  std::mt19937 random(3);
  int impossible = 0;
  int recomputed = 0;
  int staged = 0;
  int mixed = 0;  // stages of two kinds
  for (int round = 0; round < 1000; ++round) {
    Case c = random_case(random, round);
    c.request.settle_memory = [&c](std::span<DappleStage> all) { return settle_stages(c, all); };
    const double expected = DappleBruteForce(c).best();
    for (const Effort effort : {Effort::quick, Effort::exhaustive}) {
      c.request.effort = effort;
      const DapplePlan plan = dapple_search(c.model, c.pool, c.request);
      ASSERT_TRUE(plan.exact) << "round " << round;
      if (std::isinf(expected)) {
        ASSERT_TRUE(plan.stages.empty()) << "round " << round;
        ++impossible;
        continue;
      }
      ASSERT_NEAR(plan.seconds, expected, 1e-9 * expected) << "round " << round;
      staged += plan.stages.size() > 1;
      for (const DappleStage& stage : plan.stages) {
        recomputed += stage.recompute;
        std::vector<bool> kinds(2, false);
        for (const auto& run : stage.devices) {
          for (int d = run.begin; d < run.begin + run.count; ++d) {
            const int kind =
                c.pool.nodes[static_cast<std::size_t>(run.node)][static_cast<std::size_t>(d)];
            kinds[static_cast<std::size_t>(kind)] = true;
          }
        }
        mixed += kinds[0] && kinds[1];
      }
    }
  }
  EXPECT_GT(impossible, 20);
  EXPECT_LT(impossible, 1000);
  EXPECT_GT(recomputed, 40);
  EXPECT_GT(staged, 400);
  EXPECT_GT(mixed, 200);
}

// Two devices of which one is twice as fast: two thirds of a micro-batch and one, so that both are
// done at the same time.
TEST(DappleSearch, AReplicatedStageIsSplitInProportionToSpeed) {
  DappleModel model;
  model.forward = {{0, 3}, {0, 6}};
  model.backward = {{0, 6}, {0, 12}};
  model.parameter_bytes = {0, 100};
  model.crossing_bytes = {0};
  DapplePool pool;
  pool.nodes = {{0, 1}};
  pool.intra_bandwidth = 50;
  DappleRequest request;
  request.micro_batches = 4;
  request.most_replicas = 3;
  const DapplePlan plan = dapple_search(model, pool, request);
  ASSERT_EQ(plan.stages.size(), 1u);
  const auto blocks = dapple_blocks(model, pool, plan.stages);
  EXPECT_DOUBLE_EQ(blocks[0].forward, 2);
  EXPECT_DOUBLE_EQ(blocks[0].backward, 4);
  EXPECT_DOUBLE_EQ(blocks[0].all_reduce, 2);  // 2 (n - 1)/n of 100 bytes
  EXPECT_DOUBLE_EQ(plan.seconds, 4 * (2 + 4) + 2);
}

// Stages begin where they may, and of such plans the best one is found.
TEST(DappleSearch, StagesBeginAtTheCutsAlone) {
  std::mt19937 random(7);
  int elsewhere = 0;  // the best plan of all cuts begins a stage at another
  for (int round = 0; round < 60; ++round) {
    Case c = random_case(random, 1, 5, 4);
    c.request.effort = Effort::exhaustive;
    const DapplePlan free = dapple_search(c.model, c.pool, c.request);
    std::vector<bool>& cuts = c.request.cuts;
    cuts.assign(static_cast<std::size_t>(c.model.layers()), false);
    cuts[2] = cuts[4] = true;
    const DapplePlan plan = dapple_search(c.model, c.pool, c.request);
    const auto allowed = [&](const DapplePlan& of) {
      return std::all_of(of.stages.begin(), of.stages.end(), [&](const DappleStage& stage) {
        return stage.first_layer == 0 || cuts[static_cast<std::size_t>(stage.first_layer)];
      });
    };
    EXPECT_TRUE(allowed(plan));
    EXPECT_GE(plan.seconds, free.seconds * (1 - 1e-9));
    if (allowed(free)) {
      EXPECT_NEAR(plan.seconds, free.seconds, 1e-9 * free.seconds);
    } else {
      ++elsewhere;
    }
  }
  EXPECT_GT(elsewhere, 10);
}

TEST(DappleSearch, QuickSaysWhereItMayBeWrong) {
  std::mt19937 random(5);
  int inexact = 0;
  double worst = 1;
  for (int round = 0; round < 40; ++round) {
    Case c = random_case(random, 1, 24, 9);
    c.request.settle_memory = [&c](std::span<DappleStage> all) { return settle_stages(c, all); };
    const DapplePlan quick = dapple_search(c.model, c.pool, c.request);
    c.request.effort = Effort::exhaustive;
    const DapplePlan best = dapple_search(c.model, c.pool, c.request);
    ASSERT_EQ(quick.stages.empty(), best.stages.empty());
    if (best.stages.empty()) continue;
    ASSERT_GE(quick.seconds * (1 + 1e-9), best.seconds);
    if (quick.exact) {
      ASSERT_NEAR(quick.seconds, best.seconds, 1e-9);
    }
    inexact += !quick.exact;
    worst = std::max(worst, quick.seconds / best.seconds);
  }
  EXPECT_GT(inexact, 0);
  EXPECT_LT(worst, 1.1);
}

}  // namespace dapple_search_test
}  // namespace hetpipe
