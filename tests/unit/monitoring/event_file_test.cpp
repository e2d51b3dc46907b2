// SPDX-License-Identifier: Apache-2.0
#include "runtime/monitoring/event_file.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/error.h"
#include "base/file.h"
#include "runtime/monitoring/event_record.h"

namespace hetpipe {
namespace event_file_test {

namespace fs = std::filesystem;

std::string bytes(std::initializer_list<int> values) {
  std::string text;
  for (const int value : values) text += static_cast<char>(value);
  return text;
}

// 12 bytes before the data, 4 behind; the end-to-end test computes what is in them.
std::string data_of(const std::string& record) { return record.substr(12, record.size() - 16); }

TEST(EventRecord, IsTheProtobufMessageByHand) {
  // 1.5 s: 0x3ff8'0000'0000'0000. Step 300 is 0b10'0101100, in groups of seven bits.
  const std::string time = bytes({0x09, 0, 0, 0, 0, 0, 0, 0xf8, 0x3f});
  EXPECT_EQ(data_of(version_record(1.5)), time + bytes({0x1a, 13}) + "brain.Event:2");
  EXPECT_EQ(data_of(start_record(1.5, 300)), time + bytes({0x10, 0xac, 0x02, 0x3a, 2, 0x08, 0x01}));
  // 0.5 as a float: 0x3f00'0000.
  const std::string value = bytes({0x0a, 4}) + "loss" + bytes({0x15, 0, 0, 0, 0x3f});
  EXPECT_EQ(data_of(scalars_record(1.5, 300, {{"loss", 0.5}})),
            time + bytes({0x10, 0xac, 0x02, 0x2a, 13, 0x0a, 11}) + value);
}

TEST(EventFile, StartsWithTheVersionAndGrowsByWholeRecords) {
  std::string folder = (fs::temp_directory_path() / "event-file.XXXXXX").string();
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  EventFile file(folder, 1234567890.25);
  EXPECT_TRUE(file.path().filename().string().starts_with("events.out.tfevents.1234567890."));
  const std::string more = scalars_record(1, 2, {{"a", 1}, {"b", 2}});
  file.append(more);
  EXPECT_EQ(read_file(file.path()), version_record(1234567890.25) + more);
  EXPECT_NE(EventFile(folder, 1234567890.25).path(), file.path());
  fs::remove_all(folder);
  EXPECT_THROW(EventFile(folder, 1), SystemError);
}

}  // namespace event_file_test
}  // namespace hetpipe
