// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/pipedream_memory.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "base/text.h"
#include "partitioner/cost/memory.h"
#include "partitioner/plan/system.h"

namespace hetpipe {
namespace pipedream_memory_test {

constexpr int kLayers = 6;
constexpr int kBatch = 8;

PlanRequest random_request(std::mt19937& random) {
  const auto below = [&](int most) { return static_cast<int>(random() % most); };
  PlanRequest request;
  Profile profile;
  profile.model = "random";
  for (int l = 0; l < kLayers; ++l) {
    ProfileLayer layer;
    layer.name = format("layer%d", l);
    if (l > 0) layer.inputs = {l - 1};
    layer.parameter_bytes = 100 * below(50);
    profile.layers.push_back(layer);
  }
  for (const char* kind : {"small", "large"}) {
    Measurement m{kind, kBatch};
    for (int l = 0; l < kLayers; ++l) {
      m.forward.push_back(1);
      m.backward.push_back(1);
      m.output_bytes.push_back(10 * below(100));
      m.stash_bytes.push_back(10 * below(1000));
    }
    profile.measurements.push_back(m);
  }
  request.profile = std::move(profile);
  for (const char* name : {"small", "large"}) {
    DeviceKind kind;
    kind.name = name;
    kind.memory = 5000 + 100 * below(name[0] == 's' ? 500 : 1500);
    request.cluster.kinds.push_back(kind);
  }
  request.cluster.nodes.push_back({"n", {0, 1}});
  return request;
}

// By the ledger's arithmetic, with one stage more behind at a time.
int most_behind(const PlanRequest& request, const Plan& plan, int in_flight, int first, int end,
                int replicas) {
  const MemoryRule rule = memory_rule(plan);
  ScheduleRequest schedule;
  schedule.stages = in_flight;
  schedule.in_flight = plan.in_flight;
  HeldTable held;
  ModelTables tables;
  for (int behind = 0;; ++behind) {
    if (behind == in_flight) return std::numeric_limits<int>::max();
    const MemoryBound need(rule, held.of(rule.schedule, schedule), in_flight - 1 - behind);
    for (const DeviceKind& kind : request.cluster.kinds) {
      const auto of =
          tables.of(request.profile, kind, (kBatch + replicas - 1) / replicas, 1, updates_of(plan));
      const ChunkMemory chunk{of->footprints.least(first, end)};
      if (need.bytes(chunk, replicas) > kind.for_plans()) return behind - 1;
    }
  }
}

TEST(PipedreamMemory, SaysHowManyStagesMayBeBehind) {
  std::mt19937 random(41);
  int some = 0;
  for (int round = 0; round < 40; ++round) {
    PlanRequest request = random_request(random);
    for (const char* system : {"pipedream", "pipedream-2bw", "spectrain"}) {
      request.system = system;
      const int in_flight = 1 + round % 7;
      Plan plan = blank_plan(request);
      plan.in_flight = in_flight;
      PipedreamMemory memory(request, plan, kBatch, in_flight);
      for (int first = 0; first < kLayers; ++first) {
        for (int end = first + 1; end <= kLayers; ++end) {
          for (const int replicas : {1, 2, 3}) {
            SCOPED_TRACE(format("%s, round %d, layers %d ... %d on %d devices", system, round,
                                first, end, replicas));
            const int most = most_behind(request, plan, in_flight, first, end, replicas);
            EXPECT_EQ(memory.most_behind(first, end, replicas), most);
            some += most >= 0 && most < in_flight ? 1 : 0;
          }
        }
      }
    }
  }
  EXPECT_GT(some, 500);
}

}  // namespace pipedream_memory_test
}  // namespace hetpipe
