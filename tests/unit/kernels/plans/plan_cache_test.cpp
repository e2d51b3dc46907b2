// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/plan_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <new>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/file.h"

namespace hetpipe::cuda {
namespace plan_cache_test {

using testing::HasSubstr;

class PlanCacheTest : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove_all(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string folder_ = testing::TempDir() + "/hetpipe_plans_" + std::to_string(getpid());
  std::string file_ = folder_ + "/deeper/plans.jsonl";
};

TEST_F(PlanCacheTest, WhatIsStoredIsFoundInALaterRun) {
  const PlanChoice choice{"62 2=5", 1.25e-5};
  {
    PlanCache cache(file_);
    EXPECT_EQ(cache.find("a \"key\""), std::nullopt);
    cache.store("a \"key\"", choice);
    EXPECT_EQ(cache.find("a \"key\""), choice);
  }
  EXPECT_EQ(PlanCache(file_).find("a \"key\""), choice);
  EXPECT_EQ(PlanCache(file_).find("another"), std::nullopt);
}

TEST_F(PlanCacheTest, WithoutAFileItRemembersInMemory) {
  PlanCache cache;
  cache.store("a", {"1", 1});
  EXPECT_EQ(cache.find("a"), (PlanChoice{"1", 1}));
}

TEST_F(PlanCacheTest, AFileCutAnywhereCostsNoMoreThanItsLastLine) {
  {
    PlanCache cache(file_);
    for (int i = 0; i < 3; ++i) cache.store("key " + std::to_string(i), {std::to_string(i), 1e-3});
  }
  const std::string whole = read_file(file_);
  for (std::size_t length = 0; length <= whole.size(); ++length) {
    write_file(file_, whole.substr(0, length));
    const PlanCache cache(file_);
    std::size_t lines = 0;  // whole objects, with or without their line's end
    for (std::size_t i = 0; i < length; ++i) lines += whole[i] == '}' ? 1 : 0;
    ASSERT_EQ(cache.size(), lines) << length;
    for (std::size_t i = 0; i < lines; ++i) {
      EXPECT_EQ(cache.find("key " + std::to_string(i)), (PlanChoice{std::to_string(i), 1e-3}));
    }
  }
}

TEST_F(PlanCacheTest, LinesThatAreNoEntriesAreLeftOut) {
  std::filesystem::create_directories(std::filesystem::path(file_).parent_path());
  write_file(file_,
             "\n[1, 2]\n{\"key\": 3, \"choice\": \"x\", \"seconds\": 1}\n"
             "{\"key\": \"a\", \"choice\": 7, \"seconds\": 1}\n"
             "{\"key\": \"a\", \"choice\": \"x\"}\nnothing\n\xff\xfe\n"
             "{\"key\": \"good\", \"choice\": \"x\", \"seconds\": 1, \"more\": []}\n");
  const PlanCache cache(file_);
  EXPECT_EQ(cache.size(), 1u);
  EXPECT_EQ(cache.find("good"), (PlanChoice{"x", 1}));
}

TEST_F(PlanCacheTest, TwoThatShareAFileAddToIt) {
  PlanCache one(file_), other(file_);
  one.store("a", {"1", 1});
  other.store("b", {"2", 1});
  one.store("c", {"3", 1});
  EXPECT_EQ(PlanCache(file_).size(), 3u);
}

// What a process has computed with it goes on with; what it has not, it takes from who was sooner.
TEST_F(PlanCacheTest, ProcessesAgree) {
  PlanCache one(file_), other(file_);
  EXPECT_EQ(one.store("a", {"1", 1}), (PlanChoice{"1", 1}));
  EXPECT_EQ(other.store("a", {"2", 0.5}), (PlanChoice{"1", 1}));
  EXPECT_EQ(other.find("a"), (PlanChoice{"1", 1}));
  // What it found and could not use it replaces, and the first does not notice.
  EXPECT_EQ(other.store("a", {"3", 1}), (PlanChoice{"3", 1}));
  EXPECT_EQ(PlanCache(file_).find("a"), (PlanChoice{"3", 1}));
  one.store("b", {"4", 1});
  EXPECT_EQ(one.find("a"), (PlanChoice{"1", 1}));
  EXPECT_EQ(PlanCache(file_).find("a"), (PlanChoice{"3", 1}));
}

// Whatever the others do, a reader finds whole entries, and in the end everybody's are there.
TEST_F(PlanCacheTest, ManyProcessesWrite) {
  constexpr int kProcesses = 4, kEntries = 25;
  std::vector<pid_t> children;
  for (int p = 0; p < kProcesses; ++p) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      PlanCache cache(file_);
      for (int i = 0; i < kEntries; ++i)
        cache.store("key " + std::to_string(p) + "." + std::to_string(i), {std::to_string(i), 1});
      _exit(cache.size() >= kEntries ? 0 : 1);
    }
    children.push_back(child);
  }
  int running = kProcesses;
  while (running > 0) {
    int status = 0;
    if (waitpid(-1, &status, WNOHANG) > 0) {
      --running;
      EXPECT_EQ(status, 0);
    }
    if (!std::filesystem::exists(file_)) continue;
    const std::string text = read_file(file_);
    const PlanCache seen(file_);
    EXPECT_GT(seen.size(), 0u);
    EXPECT_TRUE(text.ends_with("}\n"));
  }
  EXPECT_EQ(PlanCache(file_).size(), static_cast<std::size_t>(kProcesses * kEntries));
}

// Round after round all store another choice of one key in the same moment: whoever was the
// soonest, all go on with that one, and it is what the file has.
TEST_F(PlanCacheTest, ProcessesThatStoreAKeyInTheSameMomentAgree) {
  constexpr int kProcesses = 3, kRounds = 150;
  struct Shared {
    std::atomic<int> came[kRounds];
    std::atomic<int> took[kRounds][kProcesses];  // the number of the process whose choice it was
  };
  void* const memory =
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* const shared = new (memory) Shared{};
  std::vector<pid_t> children;
  for (int p = 0; p < kProcesses; ++p) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      for (int round = 0; round < kRounds; ++round) {
        PlanCache cache(file_);
        ++shared->came[round];
        while (shared->came[round] < kProcesses) std::this_thread::yield();
        const PlanChoice taken =
            cache.store("key " + std::to_string(round), {std::to_string(p), 1});
        shared->took[round][p] = std::stoi(taken.choice);
      }
      _exit(0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  const PlanCache kept(file_);
  EXPECT_EQ(kept.size(), std::size_t{kRounds});
  std::set<int> soonest;
  for (int round = 0; round < kRounds; ++round) {
    const auto choice = kept.find("key " + std::to_string(round));
    ASSERT_TRUE(choice) << round;
    const int by = std::stoi(choice->choice);
    soonest.insert(by);
    for (const auto& took : shared->took[round]) EXPECT_EQ(took, by) << "round " << round;
  }
  EXPECT_GT(soonest.size(), 1u) << "they never met";
  munmap(memory, sizeof(Shared));
}

TEST_F(PlanCacheTest, AFileThatCannotBeWrittenIsWarnedOfOnce) {
  std::filesystem::create_directories(file_);  // a folder in its place
  std::vector<std::string> warnings;
  PlanCache cache(file_, [&](const std::string& text) { warnings.push_back(text); });
  cache.store("a", {"1", 1});
  cache.store("b", {"2", 1});
  EXPECT_EQ(cache.find("a"), (PlanChoice{"1", 1}));
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_THAT(warnings[0], HasSubstr(file_));
}

}  // namespace plan_cache_test
}  // namespace hetpipe::cuda
