// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "tests/fault/launched_job.h"
#include "tests/fault/small_training.h"
#include "tests/main/patience.h"

// `hetpipe compare` as people run it: it starts mpirun itself, continues where it was, and reports
// what it could not do.
namespace hetpipe {
namespace end_to_end_compare_test {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;
using testing::HasSubstr;

constexpr double kLong = 60;  // s on a usual machine

class Compare : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() /
              format("hetpipe-compare-%d-%s", ::getpid(),
                     testing::UnitTest::GetInstance()->current_test_info()->name());
    fault::write_files(folder_);
  }
  void TearDown() override {
    if (!HasFailure()) fs::remove_all(folder_);
  }

  Words words(const std::string& systems, const Words& more) const {
    Words all{HETPIPE_COMMAND, "compare",
              "--cluster",     folder_ / "cluster.toml",
              "--profile",     folder_ / "profile.toml",
              "--data",        folder_ / "data",
              "--systems",     systems,
              "--output",      output()};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  // The exit code.
  int compare(const std::string& systems, const Words& more) {
    fs::remove(said_file());
    const auto code = fault::run(words(systems, more), output().string(), said_file(), kLong);
    EXPECT_TRUE(code.has_value()) << "it did not end: " << said();
    return code.value_or(-1);
  }
  fs::path output() const { return folder_ / "out"; }
  fs::path said_file() const { return folder_ / "said"; }
  std::string said() const { return read_file(said_file()); }
  Json result() const { return Json::parse(read_file(output() / "compare.json")); }

  fs::path folder_;
};

// Under mpirun: two systems, and one that nine virtual workers of four devices were asked of.
TEST_F(Compare, TrainsWhatItCanAndSaysWhatItCannot) {
  const Words more{"--epochs",
                   "1",
                   "--seeds",
                   "1,2",
                   "--learning-rate",
                   "0.02",
                   "--learning-rate",
                   "ssp=0.03",
                   "--of",
                   "asp:virtual-workers=9",
                   "--",
                   "--momentum",
                   "0.5"};
  ASSERT_EQ(compare("hetpipe,ssp,asp", more), 0) << said();
  const Json json = result();
  ASSERT_EQ(json.at("entries").size(), 3u);
  for (const int i : {0, 1}) {
    const Json& entry = json.at("entries").at(static_cast<std::size_t>(i));
    SCOPED_TRACE(entry.at("name").get<std::string>());
    EXPECT_TRUE(entry.at("why_not").is_null());
    ASSERT_EQ(entry.at("runs").size(), 2u);
    EXPECT_GT(entry.at("throughput").at("min").get<double>(), 0);
    EXPECT_GE(entry.at("test_accuracy").at("min").get<double>(), 0);
    EXPECT_GT(entry.at("bytes_per_epoch").get<double>(), 0);
    for (const Json& run : entry.at("runs").items()) EXPECT_EQ(run.at("samples"), fault::kSamples);
  }
  EXPECT_FALSE(json.at("entries").at(2).at("why_not").is_null());
  EXPECT_EQ(json.at("entries").at(2).at("runs").size(), 0u);
  EXPECT_THAT(said(), HasSubstr("asp was not trained"));
  EXPECT_THAT(read_file(output() / "runs/ssp-seed-1.toml"), HasSubstr("learning-rate = 0.03"));
  EXPECT_THAT(read_file(output() / "runs/hetpipe-seed-2.toml"), HasSubstr("momentum = 0.5"));
  EXPECT_THAT(read_file(output() / "accuracy.svg"), HasSubstr("<polyline"));
  const std::string page = read_file(output() / "report.html");
  for (const auto& run : fs::directory_iterator(output() / "runs")) {
    if (!run.is_directory() || !run.path().string().ends_with("-seed-1")) continue;
    EXPECT_THAT(page, HasSubstr(">" + run.path().string() + "</h2>"));
  }
  EXPECT_THAT(read_file(output() / "compare.md"), HasSubstr("| hetpipe | 2 |"));

  // Once more: nothing is trained again.
  const auto when = fs::last_write_time(output() / "runs/hetpipe-seed-1/result.json");
  ASSERT_EQ(compare("hetpipe,ssp,asp", more), 0) << said();
  EXPECT_EQ(fs::last_write_time(output() / "runs/hetpipe-seed-1/result.json"), when);
  EXPECT_THAT(said(), HasSubstr("[4/4] ssp, seed 2: already finished"));
  EXPECT_EQ(result().at("entries"), json.at("entries"));

  // Other conditions are another comparison.
  EXPECT_EQ(compare("ssp", {"--epochs", "2"}), 2);
  EXPECT_THAT(said(), HasSubstr("ssp-seed-1: was made with other options or another plan"));
  EXPECT_EQ(fs::last_write_time(output() / "runs/hetpipe-seed-1/result.json"), when);
}

// Ranks as threads: without mpirun. A target that every evaluation reaches.
TEST_F(Compare, StopsEachAtTheTarget) {
  ASSERT_EQ(
      compare("hetpipe,ssp", {"--epochs", "50", "--target-accuracy", "1e-9", "--evaluations", "20",
                              "--learning-rate", "0.02", "--", "--transport", "threads"}),
      0)
      << said();
  const Json json = result();
  for (const Json& entry : json.at("entries").items()) {
    ASSERT_EQ(entry.at("runs").size(), 1u);
    const Json& run = entry.at("runs").at(0);
    EXPECT_EQ(run.at("exit"), "target-accuracy");
    EXPECT_LT(run.at("samples").get<std::int64_t>(), 50 * fault::kSamples);
    EXPECT_EQ(entry.at("time_to_target").at("mean"), run.at("time_to_target"));
  }
}

// One whose numbers run away is reported, and the others continue.
TEST_F(Compare, AFailedRunDoesNotEndTheOthers) {
  const Words more{"--epochs",
                   "2",
                   "--learning-rate",
                   "data-parallel=1e6",
                   "--of",
                   "data-parallel:optimizer=sgd-momentum",
                   "--",
                   "--transport",
                   "threads"};
  EXPECT_EQ(compare("data-parallel,hetpipe", more), 4) << said();
  const Json entries = result().at("entries");
  EXPECT_EQ(entries.at(0).at("runs").size(), 0u);
  EXPECT_EQ(entries.at(0).at("failures").at(0).at("exit_code"), 4);
  EXPECT_THAT(entries.at(0).at("failures").at(0).at("said").get<std::string>(),
              HasSubstr("is not a finite number"));
  EXPECT_EQ(entries.at(1).at("runs").size(), 1u);
}

// Ctrl-C ends the run that is going on, with all of its ranks; what is done stays. The pace of a
// run is modelled: this one takes some seconds on any machine.
TEST_F(Compare, GoesOnAfterAnInterruption) {
  const Words more{"--epochs", "8", "--learning-rate", "0.02"};
  ASSERT_EQ(compare("hetpipe", more), 0) << said();
  {
    fs::remove(said_file());
    fault::LaunchedJob job(words("hetpipe,ssp", more), output() / "runs/ssp-seed-1.toml",
                           said_file());
    EXPECT_TRUE(test::comes_true(
        [&] {
          return fs::exists(output() / "runs/ssp-seed-1/train.log") || job.try_end().has_value();
        },
        kLong));
    job.signal(SIGINT);
    EXPECT_EQ(job.wait(kLong), 75) << said();
    EXPECT_EQ(job.left_after(20), 0);
  }
  EXPECT_THAT(said(), HasSubstr("hetpipe, seed 1: already finished"));
  EXPECT_THAT(said(), HasSubstr("ssp, seed 1: interrupted"));
  Json entries = result().at("entries");
  EXPECT_EQ(entries.at(0).at("runs").size(), 1u);
  EXPECT_EQ(entries.at(1).at("not_run"), 1);

  EXPECT_EQ(compare("hetpipe,ssp", more), 0) << said();
  entries = result().at("entries");
  EXPECT_EQ(entries.at(1).at("not_run"), 0);
  EXPECT_EQ(entries.at(1).at("runs").size(), 1u);
}

// With --json, standard output is one document, here and of a training.
TEST_F(Compare, JsonStandsAlone) {
  const auto out_of = [&](const Words& all) {
    const std::string out = (folder_ / "json").string();
    std::string line;
    for (const std::string& word : all) line += "'" + word + "' ";
    EXPECT_EQ(std::system((line + "> '" + out + "' 2> '" + said_file().string() + "'").c_str()), 0)
        << said();
    return Json::parse(read_file(out));
  };
  const Json compared = out_of(words("ssp", {"--epochs", "1", "--learning-rate", "0.02", "--json",
                                             "--", "--transport", "threads"}));
  EXPECT_EQ(compared, result());
  EXPECT_THAT(said(), HasSubstr("[1/1] ssp, seed 1: "));
  const fs::path run = folder_ / "run";
  Words train = fault::train_words(HETPIPE_COMMAND, folder_, fault::Shape::one_worker, run, 60);
  train.insert(train.end(), {"--json", "--transport", "threads", "--epochs", "1"});
  const Json trained = out_of(train);
  EXPECT_EQ(trained, Json::parse(read_file(run / "result.json")));
  EXPECT_EQ(trained.at("ranks").size(), 3u);
  EXPECT_EQ(trained.at("samples"), fault::kSamples);
  EXPECT_THAT(said(), HasSubstr("files of this run"));
}

TEST_F(Compare, IsNotStartedByALauncher) {
  ::setenv("OMPI_COMM_WORLD_RANK", "0", 1);
  ::setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
  const int code = compare("hetpipe", {});
  ::unsetenv("OMPI_COMM_WORLD_RANK");
  ::unsetenv("OMPI_COMM_WORLD_SIZE");
  EXPECT_EQ(code, 2);
  EXPECT_THAT(said(), HasSubstr("compare was started by mpirun"));
  EXPECT_FALSE(fs::exists(output()));
}

}  // namespace end_to_end_compare_test
}  // namespace hetpipe
