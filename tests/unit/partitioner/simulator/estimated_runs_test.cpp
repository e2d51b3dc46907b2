// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "benchmarks/calibration_fit.h"
#include "partitioner/profile/estimate_record.h"

namespace hetpipe {
namespace estimated_runs_test {

// Forty iterations measured on A100s, where a checkout has them beside it, predicted from flops and
// bytes alone. The table with every run: benchmarks/run estimated-runs; docs/measured.md.
class EstimatedRuns : public testing::Test {
 protected:
  void SetUp() override {
    const auto table = std::filesystem::path(HETPIPE_SOURCE_DIR).parent_path() /
                       "shared/data/measured/vtrain/calibration.csv";
    if (!std::filesystem::exists(table)) GTEST_SKIP() << "no measured runs at " << table;
    runs_ = bench::load_calibration_runs(table);
    ASSERT_EQ(runs_.size(), 40U);
  }
  std::vector<double> errors(const std::string& where) const {
    std::vector<double> errors;
    for (const bench::CalibrationRun& run : runs_) {
      if (run.where == where) errors.push_back(bench::calibration_error(run));
    }
    return errors;
  }
  std::vector<bench::CalibrationRun> runs_;
};

TEST_F(EstimatedRuns, OnOneNode) {
  const std::vector<double> e = errors("one node");
  ASSERT_EQ(e.size(), 32U);
  EXPECT_LE(bench::mean_of(e), 0.10);
  EXPECT_LE(bench::worst_of(e), 0.27);
}

TEST_F(EstimatedRuns, OnSeveralNodes) {
  const std::vector<double> e = errors("several nodes");
  ASSERT_EQ(e.size(), 8U);
  EXPECT_LE(bench::mean_of(e), 0.10);
  EXPECT_LE(bench::worst_of(e), 0.21);
}

// Two constants are fitted; what they are worth on a run that they were not fitted to.
TEST_F(EstimatedRuns, LeavingOneOut) {
  const std::vector<bench::Candidate> all =
      bench::candidates(runs_, {60e-6, 65e-6, 70e-6, 75e-6, 80e-6}, {0.7, 0.75, 0.8, 0.85});
  const std::vector<double> errors = bench::left_out_errors(runs_, all);
  for (const char* where : bench::kCalibrationGroups) {
    EXPECT_LE(bench::mean_of(bench::errors_in(runs_, errors, where)), 0.12) << where;
  }
  // The constants in use are those that all runs together choose.
  const bench::EstimateConstants& best = bench::fitted(runs_, all).constants;
  EXPECT_DOUBLE_EQ(*best.launch_latency, kMegatronLaunchLatency);
  EXPECT_DOUBLE_EQ(*best.tensor_efficiency, kA100TensorEfficiency);
}

// What a plan built on such estimates says of itself.
TEST_F(EstimatedRuns, TheRecordIsTrue) {
  const std::vector<double> errors = bench::errors_of(
      runs_, [](const bench::CalibrationRun& run) { return bench::calibration_error(run); });
  EXPECT_NEAR(kMegatronRecord.mean, bench::mean_of(errors), 0.005);
  EXPECT_NEAR(kMegatronRecord.worst, bench::worst_of(errors), 0.005);
  EXPECT_EQ(kMegatronRecord.compared, static_cast<int>(errors.size()));
}

}  // namespace estimated_runs_test
}  // namespace hetpipe
