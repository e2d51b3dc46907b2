// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/partition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>
#include <set>

#include "../cases.h"

namespace hetpipe {
namespace partition_brute_force_test {

using test::user_error;
using testing::HasSubstr;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Case {
  Cluster cluster;
  Profile profile;
  PartitionRequest request;
};

// The definition, written down once more without the library's cut, cost and ledger: every order,
// every cut.
class BruteForce {
 public:
  explicit BruteForce(const Case& c) : c_(c) {}

  double best() {
    std::vector<int> order(c_.request.devices.size());
    std::iota(order.begin(), order.end(), 0);
    double best = kInfinity;
    do {
      std::vector<int> ends;
      best = std::min(best, over_cuts(order, ends));
    } while (std::next_permutation(order.begin(), order.end()));
    return best;
  }
  // Cuts whose memory alone rules them out, and cuts in which a tensor jumps over a stage.
  int too_large = 0;
  int jumps = 0;
  int tied_apart = 0;  // cuts with a weight in two stages

 private:
  double over_cuts(const std::vector<int>& order, std::vector<int>& ends) {
    const int layers = static_cast<int>(c_.profile.layers.size());
    if (ends.size() + 1 == order.size()) {
      ends.push_back(layers);
      const double value = cost(order, ends);
      ends.pop_back();
      return value;
    }
    double best = kInfinity;
    for (int e = ends.empty() ? 1 : ends.back() + 1; e < layers; ++e) {
      ends.push_back(e);
      best = std::min(best, over_cuts(order, ends));
      ends.pop_back();
    }
    return best;
  }

  const Measurement& measured(int device) const {
    const std::string& kind =
        c_.cluster.kind_of(c_.request.devices[static_cast<std::size_t>(device)]).name;
    return *std::find_if(c_.profile.measurements.begin(), c_.profile.measurements.end(),
                         [&](const Measurement& m) { return m.device == kind; });
  }

  // Layers whose weight others have too.
  std::set<int> owners() const {
    std::set<int> result;
    for (const ProfileLayer& user : c_.profile.layers) {
      for (std::size_t l = 0; l < c_.profile.layers.size(); ++l) {
        if (c_.profile.layers[l].name == user.shares) result.insert(static_cast<int>(l));
      }
    }
    return result;
  }

  double cost(const std::vector<int>& order, const std::vector<int>& ends) {
    const int stages = static_cast<int>(order.size());
    const auto stage_of = [&](int layer) {
      int k = 0;
      while (ends[static_cast<std::size_t>(k)] <= layer) ++k;
      return k;
    };
    // tensors[a][b]: layers whose output goes from stage a to stage b
    std::vector<std::vector<std::set<int>>> tensors(order.size(),
                                                    std::vector<std::set<int>>(order.size()));
    for (int l = 0; l < ends.back(); ++l) {
      for (const int input : c_.profile.layers[static_cast<std::size_t>(l)].inputs) {
        const int a = stage_of(input);
        const int b = stage_of(l);
        if (a != b) tensors[static_cast<std::size_t>(a)][static_cast<std::size_t>(b)].insert(input);
        if (b > a + 1) ++jumps;
      }
    }
    double worst = 0;
    for (int k = 0; k < stages; ++k) {
      const auto ks = static_cast<std::size_t>(k);
      const Measurement& m = measured(order[ks]);
      const DeviceName& here = c_.request.devices[static_cast<std::size_t>(order[ks])];
      const double slices = c_.request.micro_batches;
      double time = 0;
      double parameters = 0, stash = 0, received = 0, sent = 0, working = 0;
      const int first = k == 0 ? 0 : ends[ks - 1];
      for (int l = first; l < ends[ks]; ++l) {
        const auto ls = static_cast<std::size_t>(l);
        time += slices * (m.forward[ls] + m.backward[ls]);
        if (c_.profile.layers[ls].shares.empty()) {
          parameters += static_cast<double>(c_.profile.layers[ls].parameter_bytes);
        }
        stash += slices * static_cast<double>(m.stash_bytes[ls]);
        double beside = 0;  // tensors that jump over this layer, from and to layers of the stage
        for (int from = first; from < l && ends[ks] - first > 1; ++from) {
          bool over = false;
          for (int to = l + 1; to < ends[ks]; ++to) {
            const auto& inputs = c_.profile.layers[static_cast<std::size_t>(to)].inputs;
            over = over || std::find(inputs.begin(), inputs.end(), from) != inputs.end();
          }
          if (over) beside += static_cast<double>(m.output_bytes[static_cast<std::size_t>(from)]);
        }
        const auto output = static_cast<double>(m.output_bytes[ls]);
        working = std::max(working, output + std::min(output, beside));
      }
      for (int other = 0; other < stages; ++other) {
        const auto os = static_cast<std::size_t>(other);
        const DeviceName& there = c_.request.devices[static_cast<std::size_t>(order[os])];
        double in = 0, out = 0;
        for (const int l : tensors[os][ks]) {
          in += static_cast<double>(measured(order[os]).output_bytes[static_cast<std::size_t>(l)]);
          received += slices * static_cast<double>(m.output_bytes[static_cast<std::size_t>(l)]);
        }
        for (const int l : tensors[ks][os]) {
          out += static_cast<double>(m.output_bytes[static_cast<std::size_t>(l)]);
          sent += slices * static_cast<double>(m.output_bytes[static_cast<std::size_t>(l)]);
        }
        const Link link = other == k ? Link{} : c_.cluster.link(there, here);
        if (!tensors[os][ks].empty()) time += slices * (link.latency + in / link.bandwidth);
        if (!tensors[ks][os].empty()) time += slices * (link.latency + out / link.bandwidth);
      }
      const int nm = c_.request.in_flight;
      const auto held = [&](int stage) {
        const int below = stages - 1 - stage;
        return stages == 1
                   ? 1
                   : std::min(nm, below + 1 + std::max(0, nm - stages) * below / (stages - 1));
      };
      const int n = held(k);
      const int queued = k + 1 < stages ? std::max(0, n - held(k + 1) - 1) : 0;
      const int waiting = k > 0 ? std::max(0, held(k - 1) - n) : 0;  // gradients on their way back
      const double copies = 1 + 1 + 1 + (n - 1) + (nm - n) + 2 + c_.request.clock_distance +
                            (nm - n >= 2 ? 1 : 0) -  // the snapshot beside all of these
                            (nm == 1 ? 1 : 0);       // the sum that is made behind the backward
      // A weight that several layers have belongs to the first. Its stage sends it to each other
      // one; parts of its gradient go from each of these to the one before.
      double tied = 0;
      for (const int owner : owners()) {
        std::vector<int> at{stage_of(owner)};
        const auto bytes =
            static_cast<double>(c_.profile.layers[static_cast<std::size_t>(owner)].parameter_bytes);
        for (int l = owner + 1; l < ends.back(); ++l) {
          const ProfileLayer& user = c_.profile.layers[static_cast<std::size_t>(l)];
          if (user.shares != c_.profile.layers[static_cast<std::size_t>(owner)].name) continue;
          if (stage_of(l) == k) tied += bytes;
          if (stage_of(l) != at.back()) at.push_back(stage_of(l));
        }
        const auto from = [&](int other) {
          const auto there = static_cast<std::size_t>(order[static_cast<std::size_t>(other)]);
          const Link link = c_.cluster.link(c_.request.devices[there], here);
          time += link.latency + bytes / link.bandwidth;
        };
        tied_apart += at.size() > 1;
        for (std::size_t i = 0; i < at.size(); ++i) {
          if (at[i] != k) continue;
          if (i > 0) {
            from(at[0]);
            tied += (n + 1 + std::max(1, held(0) - 2)) * bytes;
          }
          if (i + 1 < at.size()) {
            from(at[i + 1]);
            tied += bytes;
          }
        }
      }
      // Gradients of several micro-batches are unpacked before there is anything to work with.
      const double backward = received / slices + working;
      // A snapshot, or the sum of a wave, that comes between two passes.
      const double late =
          nm <= 2 && n == 1 ? parameters - working - stash - received / slices - sent : 0;
      const double need = tied + copies * parameters + std::max(0.0, late) + n * stash +
                          (n + 1 + waiting) * received + (2 + queued) * sent +
                          (slices > 1 ? std::max(sent, backward) : backward);
      if (need > static_cast<double>(c_.cluster.kind_of(here).memory)) {
        ++too_large;
        return kInfinity;
      }
      worst = std::max(worst, time);
    }
    return worst;
  }

  const Case& c_;
};

Case random_case(std::mt19937& random) {
  const auto integer = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  Case c;
  const int kinds = integer(1, 3);
  for (int k = 0; k < kinds; ++k) {
    DeviceKind kind;
    kind.name = "kind" + std::to_string(k);
    c.cluster.kinds.push_back(kind);
  }
  const int devices = integer(1, 4);
  const int nodes = integer(1, devices);
  for (int n = 0; n < nodes; ++n) c.cluster.nodes.push_back({"n" + std::to_string(n), {}});
  for (int d = 0; d < devices; ++d) {
    const int node = d < nodes ? d : integer(0, nodes - 1);
    c.cluster.nodes[static_cast<std::size_t>(node)].kinds.push_back(integer(0, kinds - 1));
  }
  c.cluster.intra_node = {integer(1, 20) * 1e6, integer(0, 3) * 1e-3, false};
  c.cluster.inter_node = {integer(1, 20) * 1e5, integer(0, 9) * 1e-3, false};
  if (kinds > 1 && integer(0, 2) == 0) {
    c.cluster.between.push_back({{"kind0", "kind1"}, {}, {integer(1, 9) * 1e5, 0, false}, false});
  }
  if (nodes > 1 && integer(0, 3) == 0) {
    c.cluster.between.push_back({{}, {"n0", "n1"}, {integer(1, 9) * 1e5, 1e-3, false}, true});
  }
  c.request.devices = c.cluster.devices();
  c.request.micro_batches = integer(1, 2);
  c.request.minibatch = 4 * c.request.micro_batches;
  c.request.in_flight = integer(1, 7);
  c.request.clock_distance = integer(0, 2);

  const int layers = integer(devices, 9);
  std::vector<double> stash(static_cast<std::size_t>(layers));
  double parameters = 0, activations = 0;
  for (int l = 0; l < layers; ++l) {
    ProfileLayer layer;
    layer.name = "layer" + std::to_string(l);
    if (l > 0) layer.inputs.push_back(l - 1);
    for (int input = 0; input < l - 1; ++input) {
      if (integer(0, 5) == 0) layer.inputs.push_back(input);
    }
    layer.parameter_bytes = integer(0, 50) * 100;
    if (l > 0 && integer(0, 7) == 0) {
      const ProfileLayer& owner = c.profile.layers[static_cast<std::size_t>(integer(0, l - 1))];
      if (owner.shares.empty() && owner.parameter_bytes > 0) {
        layer.shares = owner.name;
        layer.parameter_bytes = owner.parameter_bytes;
      }
    }
    parameters += static_cast<double>(layer.parameter_bytes);
    c.profile.layers.push_back(layer);
  }
  std::vector<std::int64_t> output(static_cast<std::size_t>(layers));
  for (auto& bytes : output) activations += static_cast<double>(bytes = integer(1, 40) * 100);
  for (int k = 0; k < kinds; ++k) {
    Measurement m;
    m.device = "kind" + std::to_string(k);
    m.batch = 4;
    for (int l = 0; l < layers; ++l) {
      m.forward.push_back(integer(1, 30) * 1e-3);
      m.backward.push_back(integer(1, 60) * 1e-3);
    }
    m.output_bytes = output;
    m.stash_bytes = output;
    c.profile.measurements.push_back(m);
  }
  // From far too small to roomy, around what an even cut would take.
  const double even = (parameters * (7 + c.request.in_flight) +
                       activations * c.request.micro_batches * (3 + c.request.in_flight)) /
                      devices;
  for (DeviceKind& kind : c.cluster.kinds) {
    kind.memory = std::max<std::int64_t>(1, static_cast<std::int64_t>(even * integer(3, 30) / 10));
  }
  return c;
}

TEST(Partition, EqualsBruteForceOnRandomCases) {
  std::mt19937 random(20200528);
  int skips = 0, unequal = 0, tight = 0, nothing = 0, fit = 0, tied = 0;
  for (int i = 0; i < 1500; ++i) {
    const Case c = random_case(random);
    BruteForce oracle(c);
    const double expected = oracle.best();
    skips += oracle.jumps > 0;
    tied += oracle.tied_apart > 0;
    unequal += c.cluster.kinds.size() > 1 && c.cluster.nodes.size() > 1;
    if (expected == kInfinity) {
      ++nothing;
      EXPECT_THAT(user_error([&] { partition(c.cluster, c.profile, c.request); }),
                  HasSubstr("The closest one"))
          << "case " << i;
      continue;
    }
    ++fit;
    tight += oracle.too_large > 0;
    const Partition found = partition(c.cluster, c.profile, c.request);
    ASSERT_NEAR(found.bottleneck, expected, 1e-9 * expected) << "case " << i;
    EXPECT_TRUE(found.exact);
    EXPECT_EQ(found.bound, found.bottleneck);
    EXPECT_TRUE(fits(c.cluster, found));
    ASSERT_EQ(found.devices.size(), c.request.devices.size());
    EXPECT_EQ(std::set<DeviceName>(found.devices.begin(), found.devices.end()).size(),
              c.request.devices.size());
    EXPECT_EQ(found.ends.back(), static_cast<int>(c.profile.layers.size()));
  }
  EXPECT_GT(skips, 300);
  EXPECT_GT(tied, 300);
  EXPECT_GT(unequal, 300);
  EXPECT_GT(tight, 300);
  EXPECT_GT(nothing, 50);
  EXPECT_GT(fit, 1000);
}

// With hardly any work allowed a cut comes out all the same, and the bound holds.
TEST(Partition, TheBoundHoldsWhereTheWorkRunsOut) {
  std::mt19937 random(11);
  int given_up = 0, fit = 0;
  for (int i = 0; i < 500; ++i) {
    Case c = random_case(random);
    const double expected = BruteForce(c).best();
    if (expected == kInfinity) continue;
    c.request.work = std::uniform_int_distribution<int>(1, 60)(random);
    const Partition found = partition(c.cluster, c.profile, c.request);
    ++fit;
    given_up += !found.exact;
    EXPECT_TRUE(fits(c.cluster, found));
    EXPECT_GE(found.bottleneck, expected * (1 - 1e-9)) << "case " << i;
    EXPECT_LE(found.bound, expected * (1 + 1e-9)) << "case " << i;
    if (found.exact) {
      EXPECT_NEAR(found.bottleneck, expected, 1e-9 * expected) << "case " << i;
    }
  }
  EXPECT_GT(fit, 200);
  EXPECT_GT(given_up, 100);
}

TEST(Partition, SameAnswerEveryTime) {
  std::mt19937 random(7);
  for (int i = 0; i < 50; ++i) {
    Case c = random_case(random);
    for (DeviceKind& kind : c.cluster.kinds) kind.memory = 1'000'000'000;
    const Partition once = partition(c.cluster, c.profile, c.request);
    const Partition again = partition(c.cluster, c.profile, c.request);
    EXPECT_EQ(once.devices, again.devices);
    EXPECT_EQ(once.ends, again.ends);
  }
}

}  // namespace partition_brute_force_test
}  // namespace hetpipe
