// SPDX-License-Identifier: Apache-2.0
#include "runtime/monitoring/monitor.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "base/fields_json.h"
#include "base/file.h"

namespace hetpipe {
namespace monitor_test {

namespace fs = std::filesystem;

class MonitorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "monitor.XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }
  MonitoredFiles files(const fs::path& folder) const {
    return {folder / "status.json", folder / "run.prom", folder};
  }
  RunStatus status() const { return from_text<RunStatus>(read_file(folder_ / "status.json")); }
  Monitor::Warn warn() {
    return [this](const std::string& text) { warnings_.push_back(text); };
  }

  fs::path folder_;
  std::vector<std::string> warnings_;
};

TEST_F(MonitorTest, AtTheEndTheFilesHoldAllThatWasNoted) {
  {
    Monitor monitor(files(folder_), RunStatus(), warn());
    for (int i = 1; i <= 100; ++i) {
      monitor.note([&](RunStatus& status) { status.samples = i; });
      monitor.add_to_curves(i, {{"loss", 1.0 / i}});
    }
    monitor.note([](RunStatus& status) { status.state = kEnded; });
  }
  EXPECT_EQ(status().samples, 100);
  EXPECT_EQ(status().state, kEnded);
  EXPECT_NE(read_file(folder_ / "run.prom").find("hetpipe_samples_total{run=\"\"} 100\n"),
            std::string::npos);
  EXPECT_TRUE(warnings_.empty());
  std::size_t of_events = 0;
  for (const auto& entry : fs::directory_iterator(folder_)) {
    const std::string name = entry.path().filename().string();
    EXPECT_EQ(name.find(".tmp."), std::string::npos);
    if (name.starts_with("events.")) of_events += fs::file_size(entry);
  }
  EXPECT_EQ(of_events, version_record(0).size() + 100 * scalars_record(0, 1, {{"loss", 1}}).size());
}

TEST_F(MonitorTest, ARunThatWasNotSaidToEndHasFailed) {
  { const Monitor monitor(files(folder_), RunStatus(), warn()); }
  EXPECT_EQ(status().state, kFailed);
}

TEST_F(MonitorTest, WhatCannotBeWrittenIsWarnedOfOnce) {
  {
    Monitor monitor(files(folder_ / "gone"), RunStatus(), warn());
    monitor.add_to_curves(1, {{"loss", 1}});
  }
  ASSERT_EQ(warnings_.size(), 3u);  // though each was tried twice
  EXPECT_NE(warnings_[0].find("gone/status.json"), std::string::npos) << warnings_[0];
  EXPECT_NE(warnings_[1].find("gone/run.prom"), std::string::npos) << warnings_[1];
  EXPECT_NE(warnings_[2].find("gone/events.out.tfevents."), std::string::npos) << warnings_[2];
}

}  // namespace monitor_test
}  // namespace hetpipe
