// SPDX-License-Identifier: Apache-2.0
#include "runtime/sync/label_sum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <memory>
#include <span>

#include "base/random.h"
#include "runtime/sync/past_caches.h"
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

// A part's floats in memory of its own, whole or in ranges in another order.
struct Scattered {
  std::vector<float> memory;
  std::vector<FlatRange> ranges;

  Scattered(Draws& draws, std::span<const float> floats) : memory(2 * floats.size()) {
    const auto size = static_cast<std::int64_t>(floats.size());
    for (std::int64_t done = 0; done < size;) {
      const std::int64_t count = draws.below(2) == 0 ? size - done : 1 + draws.below(size - done);
      ranges.push_back({2 * (size - done - count), count});  // later ones lie below
      std::copy_n(floats.begin() + done, count, memory.begin() + ranges.back().offset);
      done += count;
    }
  }
  ScatteredNumbers floats() const { return {memory.data(), ranges}; }
};

std::ptrdiff_t threads_of_this_process() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"),
                       std::filesystem::directory_iterator());
}

class LabelSumTest : public testing::TestWithParam<LabelSum::By> {};

TEST_P(LabelSumTest, EveryOrderOfArrivalGivesTheBitsOfTheDefinition) {
  for (std::uint64_t key = 0; key < 200; ++key) {
    Draws draws(key);
    Trial trial(draws);
    struct Coming {
      std::size_t contributor, part;
      std::shared_ptr<const Scattered> floats;
      std::int64_t arrived, count;
    };
    std::vector<Coming> coming;
    for (std::size_t i = 0; i < trial.contributors.size(); ++i) {
      for (std::size_t k = 0; k < trial.contributors[i].parts.size(); ++k) {
        const FlatRange range = trial.contributors[i].parts[k].range;
        const std::span floats(trial.deltas[i].data() + range.offset,
                               static_cast<std::size_t>(range.count));
        coming.push_back({i, k, std::make_shared<const Scattered>(draws, floats), 0, range.count});
      }
    }
    std::vector<std::shared_ptr<const Scattered>> kept;
    for (const Coming& part : coming) kept.push_back(part.floats);
    std::vector<float> next(trial.before.size(), -7.0f);
    LabelSum sum(trial.before, next, std::move(trial.contributors), GetParam());
    while (!coming.empty()) {
      ASSERT_FALSE(sum.complete()) << "trial " << key;
      Coming& some = coming[static_cast<std::size_t>(draws.below(std::ssize(coming)))];
      some.arrived += 1 + draws.below(some.count - some.arrived);
      EXPECT_TRUE(sum.arrived(some.contributor, some.part, some.floats->floats(), some.arrived));
      EXPECT_FALSE(sum.arrived(some.contributor, some.part, some.floats->floats(), some.arrived));
      if (draws.below(2) == 0) sum.add(1 + draws.below(2000));
      std::erase_if(coming, [](const Coming& c) { return c.arrived == c.count; });
    }
    while (!sum.add(1 + draws.below(2000))) {
    }
    ASSERT_TRUE(test::comes_true([&] { return sum.complete(); })) << "trial " << key;
    ASSERT_EQ(next, trial.expected()) << "trial " << key;
  }
}

// Labels that no cache holds are added past them, of several contributors at once.
TEST_P(LabelSumTest, LargeLabelsHaveTheBitsOfTheDefinition) {
  const std::size_t size = (std::size_t{2} << 20) + 77;
  for (std::size_t workers = 1; workers <= 4; ++workers) {
    std::vector<std::vector<float>> arrays(workers + 1);
    for (std::size_t i = 0; i <= workers; ++i) {
      for (std::size_t e = 0; e < size; ++e) {
        arrays[i].push_back(static_cast<float>((e * 7919 + i * 104729) % 1000) / 37);
      }
    }
    std::vector<float> expected = arrays[0], next(size);
    std::vector<LabelSum::Contributor> contributors(workers);
    const std::vector<FlatRange> whole{{0, static_cast<std::int64_t>(size)}};
    for (std::size_t i = 0; i < workers; ++i) {
      contributors[i].factor = i % 2 == 0 ? 1.0f : .7f;
      contributors[i].parts.emplace_back(whole.front());
      for (std::size_t e = 0; e < size; ++e) {
        const float change = contributors[i].factor * arrays[i + 1][e];
        expected[e] += change;
      }
    }
    LabelSum sum(arrays[0], next, std::move(contributors), GetParam());
    for (std::size_t i = 0; i < workers; ++i) {
      sum.arrived(i, 0, {arrays[i + 1].data(), whole}, static_cast<std::int64_t>(size));
    }
    while (!sum.add(100'000)) {
    }
    ASSERT_TRUE(test::comes_true([&] { return sum.complete(); }));
    EXPECT_TRUE(next == expected) << workers << " contributors";
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
    const std::vector<FlatRange> whole{{0, count}};
    std::vector<float> next(trial.before.size());
    LabelSum sum(trial.before, next, std::move(trial.contributors), GetParam());
    EXPECT_EQ(threads_of_this_process(), threads + (GetParam() == LabelSum::By::thread ? 1 : 0));
    EXPECT_TRUE(sum.arrived(0, 0, {trial.deltas[0].data(), whole}, count));
    sum.add(1 + draws.below(2000));
    EXPECT_FALSE(sum.complete());
  }
  EXPECT_TRUE(test::comes_true([&] { return threads_of_this_process() == threads; }))
      << "its thread is still there";
}

// All by itself in add(), or by a thread of its own.
INSTANTIATE_TEST_SUITE_P(Background, LabelSumTest,
                         testing::Values(LabelSum::By::caller, LabelSum::By::thread));

TEST(LabelSum, AShardWithoutParametersIsCompleteAtOnce) {
  const std::vector<float> none;
  EXPECT_TRUE(LabelSum(none, {}, {}, LabelSum::By::caller).complete());
}

TEST(PastCaches, AddsTheBitsOfTheDefinitionWhereverItLies) {
  Draws draws(3);
  for (int trial = 0; trial < 300; ++trial) {
    const std::int64_t count = draws.below(200);
    std::vector<std::vector<float>> arrays(3);  // before, and two that are added
    std::vector<const float*> places;
    for (std::vector<float>& array : arrays) {
      for (std::int64_t e = 0; e < 64 + count; ++e) array.push_back(draws.number());
      places.push_back(array.data() + draws.below(64));
    }
    const float factors[] = {draws.below(2) == 0 ? 1.0f : draws.number(),
                             draws.below(2) == 0 ? 1.0f : draws.number()};
    const bool two = draws.below(2) == 0;
    const std::int64_t at = draws.below(64);
    std::vector<float> expected(static_cast<std::size_t>(64 + count), 5.0f), sum = expected;
    for (std::int64_t e = 0; e < count; ++e) {
      const float product = factors[0] * places[1][e], second = factors[1] * places[2][e];
      float value = places[0][e] + product;
      if (two) value += second;
      expected[static_cast<std::size_t>(at + e)] = value;
    }
    add_past_caches(sum.data() + at, places[0], {places[1], factors[0]},
                    {two ? places[2] : nullptr, factors[1]}, count);
    ASSERT_EQ(sum, expected) << "trial " << trial;
  }
}

std::vector<Bf16> narrow(const std::vector<float>& values) {
  std::vector<Bf16> halves;
  for (const float value : values) halves.emplace_back(value);
  return halves;
}
std::vector<float> wide(const std::vector<Bf16>& halves) {
  std::vector<float> values;
  for (const Bf16 half : halves) values.push_back(static_cast<float>(half));
  return values;
}
Numbers numbers_of(const std::vector<Bf16>& halves, std::int64_t first = 0) {
  return Numbers(std::as_bytes(std::span(halves)).data(), ElementType::bf16).from(first);
}

TEST(PastCaches, AddsBf16AsTheFloatsThatTheyAre) {
  Draws draws(4);
  for (int trial = 0; trial < 300; ++trial) {
    const std::int64_t count = draws.below(200), all = count + 64;
    std::vector<std::vector<float>> arrays(3);
    for (std::vector<float>& array : arrays) {
      for (std::int64_t e = 0; e < all; ++e) array.push_back(draws.number());
    }
    const std::vector<Bf16> halves[] = {narrow(arrays[1]), narrow(arrays[2])};
    const std::vector<float> floats[] = {wide(halves[0]), wide(halves[1])};
    const float factors[] = {draws.below(2) == 0 ? 1.0f : draws.number(),
                             draws.below(2) == 0 ? 1.0f : draws.number()};
    const std::int64_t at = draws.below(64), first = draws.below(64), second = draws.below(64);
    const bool two = draws.below(2) == 0;
    const float* const before = arrays[0].data() + at;
    std::vector<float> expected(static_cast<std::size_t>(all), 5.0f), sum = expected;
    add_past_caches(expected.data() + at, before, {floats[0].data() + first, factors[0]},
                    {two ? floats[1].data() + second : nullptr, factors[1]}, count);
    add_past_caches(sum.data() + at, before, {numbers_of(halves[0], first), factors[0]},
                    {two ? numbers_of(halves[1], second) : Numbers(), factors[1]}, count);
    ASSERT_EQ(sum, expected) << "trial " << trial;
    add_to(expected.data(), {floats[1].data(), factors[1]}, all);
    add_to(sum.data(), {numbers_of(halves[1]), factors[1]}, all);
    ASSERT_EQ(sum, expected) << "trial " << trial;
  }
}

// Of several contributors, also where no cache holds the label.
TEST(LabelSum, WidensBf16BeforeItAddsThem) {
  Draws draws(5);
  for (const std::int64_t count : {std::int64_t{1001}, kBeyondCaches + 77}) {
    std::vector<std::vector<float>> arrays(4);
    for (std::vector<float>& array : arrays) {
      for (std::int64_t e = 0; e < count; ++e) array.push_back(draws.number());
    }
    const std::vector<FlatRange> parts{{count - 300, 300}, {0, count - 300}};
    std::vector<std::vector<Bf16>> halves;
    std::vector<LabelSum::Contributor> contributors(3);
    std::vector<float> expected = arrays[0], next(expected.size());
    for (std::size_t i = 0; i < contributors.size(); ++i) {
      halves.push_back(narrow(arrays[i + 1]));
      contributors[i].factor = i == 1 ? 0.7f : 1.0f;
      contributors[i].parts.emplace_back(FlatRange{0, count});
      for (std::int64_t e = 0; e < count; ++e) {
        const std::int64_t from = e < 300 ? count - 300 + e : e - 300;
        const float change =
            contributors[i].factor * static_cast<float>(halves[i][static_cast<std::size_t>(from)]);
        expected[static_cast<std::size_t>(e)] += change;
      }
    }
    LabelSum sum(arrays[0], next, std::move(contributors), LabelSum::By::caller);
    for (std::size_t i = 0; i < 3; ++i) sum.arrived(i, 0, {numbers_of(halves[i]), parts}, count);
    while (!sum.add(100'000)) {
    }
    ASSERT_TRUE(sum.complete());
    EXPECT_TRUE(next == expected) << count;
  }
}

TEST(PastCaches, CopiesEveryFloatAndNoOther) {
  for (const std::int64_t count : {std::int64_t{100}, kBeyondCaches + 1, kBeyondCaches + 45}) {
    std::vector<float> from, to(static_cast<std::size_t>(count) + 40, -1.0f);
    for (std::int64_t e = 0; e < count; ++e) from.push_back(static_cast<float>(e % 1009));
    std::vector<float> expected = to;
    std::copy(from.begin(), from.end(), expected.begin() + 5);
    copy_large(to.data() + 5, from.data(), count);
    EXPECT_TRUE(to == expected) << count;
  }
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
          EXPECT_LE(piece.count, kPieceNumbers);
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
