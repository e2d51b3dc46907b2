// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/launch/doctor/lying.h"

namespace hetpipe {
namespace output_checks_test {

using test::planned;
using test::said;
using test::three_hosts;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// --- output
// ------------------------------------------------------------------------------------------------

OutputFacts sound_output() {
  return {.asked = "runs/a",
          .tried = "runs",
          .file = "/runs/.trial",
          .unusable = "",
          .earlier_run = "",
          .file_system = "nfs4",
          .free = 50e9,
          .written = 32e6,
          .write_seconds = 0.1,
          .sync_seconds = 0.1,
          .write_failure = "",
          .lock_failure = "",
          .lock_holds = true};
}

std::vector<std::string> said_of(const OutputFacts& output, double needed = 0,
                                 const OutputSeen& second = {}, const OutputSeen& third = {}) {
  return said(check_output(output, {{}, second, third}, three_hosts(), needed));
}

TEST(CheckOutput, Sound) {
  const Check check = check_output(sound_output(), {{}, {}, {}}, three_hosts(), 1e9);
  EXPECT_THAT(check.findings, IsEmpty());
  EXPECT_EQ(check.seen,
            "runs/a, tried in runs (nfs4): 50.0 GB free, 160 MB/s written, synced in "
            "100 ms, locks");
}

TEST(CheckOutput, WhatRankZeroFinds) {
  const auto with = [](auto change) {
    OutputFacts output = sound_output();
    change(output);
    return output;
  };
  EXPECT_THAT(said_of(with([](auto& o) { o.unusable = "cannot be written (why). Give another."; })),
              ElementsAre("mistake: --output runs/a: cannot be written (why). Give another."));
  EXPECT_THAT(said_of(with([](auto& o) { o.earlier_run = "holds an earlier run (it). Resume."; })),
              ElementsAre("note: --output runs/a: holds an earlier run (it). Resume."));
  EXPECT_THAT(
      said_of(with([](auto& o) { o.write_failure = "No space left on device"; })),
      ElementsAre(HasSubstr("failure: --output runs/a: No space left on device after 32.0 MB")));
  EXPECT_THAT(said_of(sound_output(), 60e9),
              ElementsAre(HasSubstr(
                  "50.0 GB free, and the checkpoints that the run keeps take about 60.0 GB")));
  EXPECT_THAT(said_of(with([](auto& o) { o.free = 0.5e9; })),
              ElementsAre(HasSubstr("note: --output runs/a: 500 MB free")));
  EXPECT_THAT(said_of(with([](auto& o) { o.sync_seconds = 8; })),
              ElementsAre(HasSubstr("note: --output runs/a: 4.0 MB/s written, synced in 8.0 s")));
  EXPECT_THAT(
      said_of(with([](auto& o) { o.lock_failure = "No locks available"; })),
      ElementsAre(HasSubstr("failure: --output runs/a: cannot be locked: No locks available")));
  EXPECT_THAT(
      said_of(with([](auto& o) { o.lock_holds = false; })),
      ElementsAre(HasSubstr("failure: --output runs/a: a second lock on one file was granted")));
}

TEST(CheckOutput, WhatOtherRanksFind) {
  EXPECT_THAT(
      said_of(sound_output(), 0, {.visible = false, .unwritable = "", .lock_failure = ""}),
      ElementsAre(HasSubstr("failure: --output runs/a: is not the same folder for rank 1 on n1")));
  EXPECT_THAT(said_of(sound_output(), 0, {},
                      {.visible = true, .unwritable = "Permission denied", .lock_failure = ""}),
              ElementsAre(HasSubstr("cannot be written by rank 2 on n2: Permission denied")));
  const OutputSeen granted{
      .visible = true, .unwritable = "", .lock_failure = "", .lock_holds = false};
  EXPECT_THAT(
      said_of(sound_output(), 0, granted, granted),
      ElementsAre(HasSubstr("the lock of rank 0 on n0 does not hold for ranks 1 and 2 on n1 "
                            "and n2 (a run started there would overwrite this one)")));
}

TEST(CheckpointBytes, ParametersSlotsAndWhatIsInFlight) {
  TrainJob job = planned("rtx-3090").job;
  EXPECT_EQ(checkpoint_bytes(job, 0), 0);
  job.profile = Profile{"mlp", {}, {}};
  job.profile->layers.resize(3);
  for (ProfileLayer& layer : job.profile->layers) layer.parameter_bytes = 500;
  job.profile->layers[0].name = "the first";
  job.profile->layers[2].shares = "the first";
  job.exact_checkpoints = false;
  EXPECT_EQ(checkpoint_bytes(job, 0), 1000 * 2 * 2);  // momentum; the one before stays
  EXPECT_EQ(checkpoint_bytes(job, 3), 1000 * 2 * 4);
  job.exact_checkpoints = true;  // one virtual worker with two minibatches in flight
  EXPECT_EQ(checkpoint_bytes(job, 0), 1000 * (2 + 2 + 2) * 2);
  job.plan.ema = 0.999;  // one average, whoever keeps it
  EXPECT_EQ(checkpoint_bytes(job, 0), 1000 * (2 + 1 + 2 + 2) * 2);
}

}  // namespace output_checks_test
}  // namespace hetpipe
