// SPDX-License-Identifier: Apache-2.0
#include "runtime/data/sampler.h"

#include <gtest/gtest.h>

#include <fstream>
#include <optional>
#include <sstream>
#include <string>

namespace hetpipe {
namespace sampler_test {

// The worker that takes each position, drawn as in sampler.h: '0' + worker, '.' for nobody.
std::string owners(const Sampler& sampler, std::int64_t end) {
  std::string text(static_cast<std::size_t>(end), '.');
  for (int worker = 0; worker < sampler.workers(); ++worker) {
    for (Minibatch p = sampler.first_minibatch(); p < sampler.count(worker); ++p) {
      const SampleRange range = sampler.samples(worker, p);
      for (int i = 0; i < range.count; ++i) {
        char& owner = text.at(static_cast<std::size_t>(range.first + i));
        EXPECT_EQ(owner, '.') << "position " << range.first + i << " is taken twice";
        owner = static_cast<char>('0' + worker);
      }
    }
  }
  return text;
}

TEST(Sampler, DealsTheStreamInRounds) {
  EXPECT_EQ(owners(Sampler(1, 4, {3, 2}, 0, 12), 12), "000110001100");
  EXPECT_EQ(owners(Sampler(1, 4, {3, 2}, 0, 15), 15), "000110001100011");
  EXPECT_EQ(owners(Sampler(1, 9, {1, 2, 1}, 0, 9), 9), "011201120");
}

// The golden file is what docs/sample_order.py prints, which follows docs/data.md alone; the test
// sample_order compares the two.
TEST(Sampler, OrdersSamplesAsTheReferenceInPythonDoes) {
  std::ifstream golden(HETPIPE_SOURCE_DIR "/tests/golden/sample-order.txt");
  std::optional<Sampler> sampler;
  std::int64_t first = 0, end = 0;
  int compared = 0;
  for (std::string line; std::getline(golden, line);) {
    std::istringstream words(line);
    if (line.starts_with("# ")) {
      EXPECT_EQ(first, end);
      std::uint64_t seed = 0;
      std::int64_t size = 0;
      words.ignore(2) >> seed >> size >> first >> end;
      sampler.emplace(seed, size, std::vector<int>{1}, first, end);
      continue;
    }
    std::int64_t position = -1;
    SampleKey key{-1, -1};
    words >> position >> key.epoch >> key.index;
    ASSERT_TRUE(sampler.has_value());
    EXPECT_EQ(position, first++);
    EXPECT_EQ(sampler->key(position), key) << line;
    ++compared;
  }
  EXPECT_EQ(first, end);
  EXPECT_EQ(compared, 116);
}

TEST(Sampler, GoesOnFromAPosition) {
  EXPECT_EQ(owners(Sampler(1, 4, {2, 2, 1}, 5, 12, 7), 12), ".....0011200");
}

TEST(Sampler, LastRoundMayBePartial) {
  const Sampler sampler(1, 4, {3, 2, 2}, 0, 11);
  EXPECT_EQ(sampler.count(0), 2);
  EXPECT_EQ(sampler.count(1), 2);
  EXPECT_EQ(sampler.count(2), 1);
  EXPECT_EQ(sampler.samples(0, 1), (SampleRange{7, 3}));
  EXPECT_EQ(sampler.samples(1, 1), (SampleRange{10, 1}));
  EXPECT_EQ(sampler.samples(2, 1), (SampleRange{11, 0}));
  EXPECT_EQ(sampler.samples(0, 2), (SampleRange{11, 0}));
}

TEST(Sampler, NothingLeft) {
  const Sampler sampler(1, 4, {3, 2}, 12, 12, 5);
  EXPECT_EQ(sampler.count(0), 5);
  EXPECT_EQ(sampler.count(1), 5);
}

TEST(Sampler, ConsumedIsAPrefix) {
  const Sampler sampler(1, 4, {3, 2}, 10, 22, 4);
  EXPECT_EQ(sampler.consumed(0), 10);
  EXPECT_EQ(sampler.consumed(1), 15);
  EXPECT_EQ(sampler.consumed(2), 20);
  EXPECT_EQ(sampler.consumed(3), 22);
}

// Draws of every element per epoch, by all workers of the samplers in turn.
void expect_each_once_per_epoch(const std::vector<Sampler>& samplers, std::int64_t size,
                                std::int64_t epochs) {
  std::vector<std::vector<int>> draws(static_cast<std::size_t>(epochs),
                                      std::vector<int>(static_cast<std::size_t>(size)));
  for (const Sampler& sampler : samplers) {
    for (int worker = 0; worker < sampler.workers(); ++worker) {
      for (Minibatch p = sampler.first_minibatch(); p < sampler.count(worker); ++p) {
        const SampleRange range = sampler.samples(worker, p);
        EXPECT_GT(range.count, 0);
        for (std::int64_t s = range.first; s < range.first + range.count; ++s) {
          const SampleKey key = sampler.key(s);
          ++draws.at(static_cast<std::size_t>(key.epoch)).at(static_cast<std::size_t>(key.index));
        }
      }
    }
  }
  for (const auto& epoch : draws) {
    EXPECT_EQ(epoch, std::vector<int>(static_cast<std::size_t>(size), 1));
  }
}

TEST(Sampler, EverySampleOncePerEpoch) {
  for (std::int64_t size : {1, 2, 7, 60, 97}) {
    for (const std::vector<int>& minibatches :
         std::vector<std::vector<int>>{{1}, {4}, {200}, {3, 3}, {5, 1, 2}, {8, 4, 2, 1}}) {
      SCOPED_TRACE(std::to_string(size) + " samples, " + std::to_string(minibatches.size()) +
                   " workers");
      expect_each_once_per_epoch({Sampler(11, size, minibatches, 0, 3 * size)}, size, 3);
    }
  }
}

TEST(Sampler, EverySampleOncePerEpochWhenResumedByOtherWorkers) {
  constexpr std::int64_t kSize = 97;
  const Sampler whole(11, kSize, {5, 3}, 0, 3 * kSize);
  for (std::int64_t rounds : {0, 1, 12, 13, 30}) {
    const std::int64_t consumed = whole.consumed(rounds);
    expect_each_once_per_epoch({Sampler(11, kSize, {5, 3}, 0, consumed),
                                Sampler(11, kSize, {4, 4, 7}, consumed, 3 * kSize, rounds)},
                               kSize, 3);
  }
}

TEST(Sampler, OrderIsOfSeedAndEpochAlone) {
  constexpr std::int64_t kSize = 50;
  const Sampler one(3, kSize, {4}, 0, 4 * kSize);
  const Sampler same(3, kSize, {7, 2}, 20, 4 * kSize, 9);
  const Sampler other(4, kSize, {4}, 0, 4 * kSize);
  int equal_seeds = 0;
  int equal_epochs = 0;
  for (std::int64_t s = 0; s < kSize; ++s) {
    EXPECT_EQ(one.key(s), same.key(s));
    equal_seeds += one.key(s) == other.key(s);
    equal_epochs += one.key(s).index == one.key(s + kSize).index;
  }
  EXPECT_LT(equal_seeds, 10);  // of 50, 1 is expected by chance
  EXPECT_LT(equal_epochs, 10);
}

}  // namespace sampler_test
}  // namespace hetpipe
