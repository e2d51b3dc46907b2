// SPDX-License-Identifier: Apache-2.0
#include "runtime/sync/label_sum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "base/random.h"
#include "runtime/sync/shard_map.h"
#include "tests/main/patience.h"

namespace hetpipe {
namespace label_sum_test {

// Numbers for one trial, in order.
class Draws {
 public:
  explicit Draws(std::uint64_t key) : key_(key) {}
  std::int64_t below(std::int64_t end) {
    return random_bits(key_, next_++) % static_cast<std::uint64_t>(end);
  }
  float number() { return random_normal(key_, next_++); }

 private:
  std::uint64_t key_;
  std::uint64_t next_ = 0;
};

// One trial: a shard of some size, contributors with their own cuts, floats that arrive in any
// order and amounts.
struct Trial {
  std::vector<float> before;
  std::vector<LabelSum::Contributor> contributors;
  std::vector<std::vector<float>> deltas;  // by contributor, the whole shard
  std::vector<float> factors;

  explicit Trial(Draws& draws) {
    const std::int64_t size = 1 + draws.below(3000);
    const auto numbers = [&] {
      std::vector<float> values;
      for (std::int64_t e = 0; e < size; ++e) values.push_back(draws.number());
      return values;
    };
    before = numbers();
    const std::int64_t workers = 1 + draws.below(3);
    for (std::int64_t i = 0; i < workers; ++i) {
      factors.push_back(draws.below(2) == 0 ? 1.0f : draws.number());
      deltas.push_back(numbers());
      LabelSum::Contributor& contributor = contributors.emplace_back();
      contributor.factor = factors.back();
      for (std::int64_t begin = 0; begin < size;) {
        const std::int64_t count = std::min(size - begin, 1 + draws.below(size));
        contributor.parts.emplace_back(FlatRange{begin, count});
        begin += count;
      }
    }
  }

  // The definition: contributor after contributor.
  std::vector<float> expected() const {
    std::vector<float> sum = before;
    for (std::size_t i = 0; i < deltas.size(); ++i) {
      for (std::size_t e = 0; e < sum.size(); ++e) {
        sum[e] += factors[i] == 1.0f ? deltas[i][e] : factors[i] * deltas[i][e];
      }
    }
    return sum;
  }
};

std::ptrdiff_t threads_of_this_process() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"),
                       std::filesystem::directory_iterator());
}

class LabelSumTest : public testing::TestWithParam<std::int64_t> {};

TEST_P(LabelSumTest, EveryOrderOfArrivalGivesTheBitsOfTheDefinition) {
  for (std::uint64_t key = 0; key < 200; ++key) {
    Draws draws(key);
    Trial trial(draws);
    struct Coming {
      std::size_t contributor, part;
      const float* floats;
      std::int64_t arrived, count;
    };
    std::vector<Coming> coming;
    for (std::size_t i = 0; i < trial.contributors.size(); ++i) {
      for (std::size_t k = 0; k < trial.contributors[i].parts.size(); ++k) {
        const FlatRange range = trial.contributors[i].parts[k].range;
        coming.push_back({i, k, trial.deltas[i].data() + range.offset, 0, range.count});
      }
    }
    // Memory of another size, of the right one, or none.
    const std::int64_t memory = draws.below(3);
    LabelSum sum(trial.before,
                 std::vector<float>(memory == 0 ? 0 : trial.before.size() + (memory == 1), -7.0f),
                 std::move(trial.contributors), GetParam());
    while (!coming.empty()) {
      ASSERT_FALSE(sum.complete()) << "trial " << key;
      Coming& some = coming[static_cast<std::size_t>(draws.below(std::ssize(coming)))];
      some.arrived += 1 + draws.below(some.count - some.arrived);
      EXPECT_TRUE(sum.arrived(some.contributor, some.part, some.floats, some.arrived));
      EXPECT_FALSE(sum.arrived(some.contributor, some.part, some.floats, some.arrived));
      if (draws.below(2) == 0) sum.add();
      std::erase_if(coming, [](const Coming& c) { return c.arrived == c.count; });
    }
    sum.add();
    ASSERT_TRUE(test::comes_true([&] { return sum.complete(); })) << "trial " << key;
    ASSERT_EQ(sum.take(), trial.expected()) << "trial " << key;
  }
}

// Nobody adds to it any more then, or reads what contributors have lent.
TEST_P(LabelSumTest, MayBeGivenUpHalfWay) {
  Draws draws(1);
  Trial trial(draws);
  ASSERT_GT(trial.contributors.size(), 1u);
  const std::int64_t count = trial.contributors[0].parts[0].range.count;
  const std::ptrdiff_t threads = threads_of_this_process();
  {
    LabelSum sum(trial.before, {}, std::move(trial.contributors), GetParam());
    EXPECT_EQ(threads_of_this_process(), threads + (GetParam() == 0 ? 1 : 0));
    EXPECT_TRUE(sum.arrived(0, 0, trial.deltas[0].data(), count));
    sum.add();
    EXPECT_FALSE(sum.complete());
  }
  EXPECT_TRUE(test::comes_true([&] { return threads_of_this_process() == threads; }))
      << "its thread is still there";
}

// All by itself in add(), or by a thread of its own.
INSTANTIATE_TEST_SUITE_P(Background, LabelSumTest, testing::Values(std::int64_t{1} << 40, 0));

TEST(LabelSum, AShardWithoutParametersIsCompleteAtOnce) {
  const std::vector<float> none;
  LabelSum sum(none, {}, {});
  EXPECT_TRUE(sum.complete());
  EXPECT_TRUE(sum.take().empty());
}

TEST(PushPieces, TileAStagesPartOfAShardInOrder) {
  Model model("wide", {700}, 3);
  model.add("linear1", Linear{1200});  // 841,200 floats: several pieces
  model.add("bn", BatchNorm{});
  model.add("linear2", Linear{5});
  model.add("linear3", Linear{3});
  model.add("loss", SoftmaxCrossEntropy{});
  const ShardMap map(model, {0, 0, 1, 0, -1}, 2);
  for (int shard = 0; shard < 2; ++shard) {
    for (int first = 0; first < 4; ++first) {
      for (int end = first + 1; end <= 5; ++end) {
        const PushPieces pieces = push_pieces(map, ShardId{shard}, first, end);
        const auto ranges = map.in_stage(ShardMap::What::parameters, ShardId{shard}, first, end);
        std::vector<std::int64_t> wanted, got;
        for (const FlatRange& range : ranges) {
          for (std::int64_t e = 0; e < range.count; ++e) wanted.push_back(range.offset + e);
        }
        for (const FlatRange& piece : pieces.parameters) {
          EXPECT_GT(piece.count, 0);
          EXPECT_LE(piece.count, kPieceFloats);
          for (std::int64_t e = 0; e < piece.count; ++e) got.push_back(piece.offset + e);
        }
        EXPECT_EQ(got, wanted) << "shard " << shard << " layers " << first << " to " << end;
        EXPECT_EQ(pieces.statistics,
                  map.on_shard(ShardMap::What::statistics, ShardId{shard}, first, end).count);
      }
    }
  }
}

}  // namespace label_sum_test
}  // namespace hetpipe
