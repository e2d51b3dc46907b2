// SPDX-License-Identifier: Apache-2.0
#include "launch/profile/measure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/file.h"

namespace hetpipe {
namespace cache_test {

namespace fs = std::filesystem;

class ProfileCacheTest : public testing::Test {
 protected:
  ProfileCacheTest()
      : folder_(fs::temp_directory_path() /
                ("hetpipe-profile-cache-" + std::to_string(::getpid()))) {
    fs::create_directories(folder_);
  }
  ~ProfileCacheTest() override { fs::remove_all(folder_); }

  static Profile profile() {
    Profile made;
    made.model = "small";
    made.layers.resize(2);
    made.layers[0].name = "first";
    made.layers[0].parameter_bytes = 8;
    made.layers[1].name = "loss";
    made.layers[1].inputs = {0};
    Measurement measured;
    measured.device = "cpu";
    measured.batch = 4;
    measured.forward = {0.25, 0.5};
    measured.backward = {0.125, 1};
    measured.output_bytes = {16, 4};
    measured.stash_bytes = {0, 4};
    made.measurements.push_back(measured);
    return made;
  }
  static KeptFile::Key key(const std::string& driver = "580.95") {
    return {{"model", "small"}, {"driver", driver}, {"threads", "1"}};
  }

  fs::path folder_;
};

TEST_F(ProfileCacheTest, WhatWasKeptIsFoundAgain) {
  const ProfileCache cache(folder_, key());
  EXPECT_FALSE(cache.find().has_value());
  EXPECT_EQ(cache.keep(profile(), "batches of 4 samples"), "");
  const auto found = ProfileCache(folder_, key()).find();
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->profile, profile());
  EXPECT_EQ(found->remark, "batches of 4 samples");
}

TEST_F(ProfileCacheTest, AnythingElseIsAnotherProfile) {
  ASSERT_EQ(ProfileCache(folder_, key()).keep(profile(), "r"), "");
  EXPECT_FALSE(ProfileCache(folder_, key("590.01")).find().has_value());
  // A file that says something else under this name: two keys of one hash, or a copy.
  const ProfileCache other(folder_, key("590.01"));
  fs::copy_file(ProfileCache(folder_, key()).file(), other.file());
  EXPECT_FALSE(other.find().has_value());
}

TEST_F(ProfileCacheTest, ADamagedFileIsMeasuredAnew) {
  const ProfileCache cache(folder_, key());
  ASSERT_EQ(cache.keep(profile(), "r"), "");
  const std::string whole = read_file(cache.file());
  for (std::size_t size = 0; size + 1 < whole.size(); size += 7) {
    write_file(cache.file(), whole.substr(0, size));
    const auto found = cache.find();
    // Cut inside the last number's line it may still be a profile, but never another one's times.
    if (found) {
      EXPECT_EQ(found->profile.layers, profile().layers);
    }
  }
  write_file(cache.file(), whole.substr(0, whole.size() / 2));
  EXPECT_FALSE(cache.find().has_value());
  ASSERT_EQ(cache.keep(profile(), "again"), "");
  EXPECT_EQ(cache.find()->remark, "again");
}

TEST_F(ProfileCacheTest, WithoutAFolderNothingIsKept) {
  const ProfileCache cache({}, key());
  EXPECT_TRUE(cache.file().empty());
  EXPECT_EQ(cache.keep(profile(), "r"), "");
  EXPECT_FALSE(cache.find().has_value());
  // A file where the folder should be.
  write_file(folder_ / "file", "x");
  EXPECT_NE(ProfileCache(folder_ / "file", key()).keep(profile(), "r"), "");
}

}  // namespace cache_test
}  // namespace hetpipe
