// SPDX-License-Identifier: Apache-2.0
#include "partitioner/plan/staleness.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hetpipe {
namespace plan_staleness_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Plan plan_of(const std::string& system, std::size_t stages, int in_flight, int micro_batches) {
  Plan plan;
  plan.system = system;
  plan.in_flight = in_flight;
  plan.micro_batches = micro_batches;
  plan.virtual_workers.resize(2);
  for (PlanVirtualWorker& worker : plan.virtual_workers) worker.stages.resize(stages);
  return plan;
}

// arXiv 1809.02839: floor(k/2) + N - k - 1 forward, floor(k/2) backward.
TEST(PlanStaleness, SpecTrainsTableForFourStages) {
  const auto found = plan_staleness(plan_of("spectrain", 4, 4, 1));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_THAT(found[0].forward, ElementsAre(3, 2, 2, 1));
  EXPECT_THAT(found[0].backward, ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(staleness_text(found), HasSubstr("stages 0 to 3: F 3 2 2 1, B 0 0 1 1"));
}

// arXiv 2410.14312: ceil(W / (N + 1)).
TEST(PlanStaleness, TimeprestCountsUpdateSequences) {
  EXPECT_EQ(plan_staleness(plan_of("timeprest", 3, 1, 2)).at(0).update_sequences, 1);
  EXPECT_EQ(plan_staleness(plan_of("timeprest", 7, 1, 2)).at(0).update_sequences, 3);
}

TEST(PlanStaleness, NothingWhereVersionsAreKeptOrNothingIsPiped) {
  EXPECT_THAT(plan_staleness(plan_of("pipedream", 4, 4, 1)), IsEmpty());
  EXPECT_THAT(plan_staleness(plan_of("gpipe", 4, 1, 4)), IsEmpty());
  EXPECT_THAT(plan_staleness(plan_of("spectrain", 1, 1, 1)), IsEmpty());
}

}  // namespace plan_staleness_test
}  // namespace hetpipe
