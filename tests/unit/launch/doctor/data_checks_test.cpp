// SPDX-License-Identifier: Apache-2.0
#include "launch/plan/feed.h"
#include "tests/unit/base/travels.h"
#include "tests/unit/launch/doctor/lying.h"

namespace hetpipe {
namespace data_checks_test {

using test::planned;
using test::planned_hosts;
using test::roles_of;
using test::said;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

DataSeen reads(double samples_per_second, bool waits = false) {
  return {.reads = true,
          .fingerprint = 7,
          .samples = 5000,
          .memory = 2'000'000,
          .rate = {.samples_per_second = samples_per_second,
                   .threads = 1,
                   .cores = 1,
                   .waited_for_files = waits}};
}
DataSeen fails(const std::string& why, bool mistake) {
  return {.reads = true, .failure = why, .mistake = mistake};
}

// Stage 0 on rank 0 alone reads.
Check check(const DataSeen& first, double throughput, int cores = 4) {
  PlannedRun run = planned("rtx-3090");
  run.job.plan.predicted.emplace().throughput = throughput;
  std::vector<DoctorFacts> facts = planned_hosts();
  facts.front().machine.rank.cores.resize(static_cast<std::size_t>(cores));
  return check_data(run, "flowers", facts, roles_of(run, facts), {first, DataSeen{}, DataSeen{}});
}

TEST(DataSeen, TravelsAsItIs) { test::expect_all_travels(test::filled<DataSeen>()); }

TEST(CheckData, ARankThatReadsFastEnough) {
  const Check found = check(reads(1000), 800);
  EXPECT_THAT(said(found), IsEmpty());
  EXPECT_EQ(found.seen,
            "flowers: 5000 samples; 1 rank reads 1000/s with 1 thread, the plan takes up to 800 of "
            "one; 2.0 MB of memory for data");
}

TEST(CheckData, ARankThatReadsTooSlowly) {
  EXPECT_THAT(said(check(reads(500), 1000)),
              ElementsAre(AllOf(HasSubstr("note: rank 0 on a: reads 500 samples/s with 1 thread, "
                                          "and trains on 1000 by the plan (it waits for data 50 "
                                          "% of the time)"),
                                HasSubstr("Give --data-threads 3."))));
  EXPECT_THAT(said(check(reads(500), 1000, 2)),
              ElementsAre(AllOf(HasSubstr("3 threads, and the rank has 2 cores"),
                                HasSubstr("hetpipe data import"))));
  EXPECT_THAT(said(check(reads(500, true), 1000)),
              ElementsAre(HasSubstr("wait for the files most of the time")));
  EXPECT_THAT(said(check(reads(1000), 1000)), ElementsAre(HasSubstr("nothing is in reserve")));
}

TEST(CheckData, DataThatCannotBeReadOrDiffer) {
  EXPECT_THAT(said(check(fails("flowers: does not exist. Give a folder.", true), 100)),
              ElementsAre(HasSubstr("mistake: rank 0 on a: flowers: does not exist. Give")));
  EXPECT_THAT(said(check(fails("flowers: input/output error", false), 100)),
              ElementsAre(HasSubstr("failure: rank 0 on a: flowers: input/output error")));
  DataSeen other = reads(1000);
  other.fingerprint = 8;
  EXPECT_THAT(said(check_data({}, "flowers", planned_hosts(), std::nullopt,
                              {reads(1000), reads(1000), other})),
              ElementsAre(HasSubstr("mistake: rank 2 on b: have other data under that name")));
}

PlannedFeed feed(double samples_per_second, double taken, int cores) {
  PlannedFeed feed{.data = "flowers", .seen = reads(samples_per_second), .taken = taken};
  feed.cores = cores;
  return feed;
}

TEST(PlannedFeed, SaysHowManyThreadsSuffice) {
  EXPECT_THAT(feed_text(feed(1000, 100, 4)), HasSubstr("it need not wait for data"));
  EXPECT_THAT(feed_text(feed(1000, 2000, 4)), HasSubstr("give hetpipe train --data-threads 3"));
  EXPECT_THAT(feed_text(feed(1000, 2000, 2)),
              HasSubstr("needs 3 threads, and this machine has 2 cores"));
}

}  // namespace data_checks_test
}  // namespace hetpipe
