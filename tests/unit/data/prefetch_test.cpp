// SPDX-License-Identifier: Apache-2.0
#include "runtime/data/prefetch.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <stdexcept>

#include "base/error.h"
#include "tests/main/patience.h"
#include "tests/unit/data/scratch_folder.h"

namespace hetpipe {
namespace prefetch_test {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;

// s; never reached where it is not the test's subject
const double kDeadline = test::patience(10);

// Sample i: label i, pixels 2i and 2i + 1.
Dataset numbered(int size) {
  Dataset data;
  data.height = 1;
  data.width = 2;
  data.channels = 1;
  data.classes = size;
  data.size = size;
  for (int i = 0; i < size; ++i) {
    data.labels.push_back(i);
    data.values.push_back(static_cast<float>(2 * i));
    data.values.push_back(static_cast<float>(2 * i + 1));
  }
  return data;
}

// All minibatches of a worker.
std::unique_ptr<Prefetcher> prefetch(const Dataset& data, const Sampler& sampler, int worker) {
  return std::make_unique<Prefetcher>(
      [&data, &sampler, worker](Minibatch p) {
        const SampleSpan all{0, sampler.samples(worker, p).count};
        return assemble_batch(data, sampler, worker, p, std::span(&all, 1));
      },
      sampler.first_minibatch(), sampler.count(worker), kDeadline);
}

TEST(Prefetcher, HandsOutEveryMinibatchInOrder) {
  const Dataset data = numbered(23);
  const Sampler sampler(5, 23, {4, 3}, 7, 60, 2);
  for (int worker : {0, 1}) {
    const auto prefetcher = prefetch(data, sampler, worker);
    for (Minibatch p = 2; p < sampler.count(worker); ++p) {
      const Batch batch = prefetcher->take(p);
      const SampleRange range = sampler.samples(worker, p);
      ASSERT_EQ(batch.minibatch, p);
      ASSERT_EQ(batch.count, range.count);
      const auto images = batch.images.as<float>();
      ASSERT_EQ(images.size(), 2u * static_cast<std::size_t>(range.count));
      for (int i = 0; i < range.count; ++i) {
        const auto at = static_cast<std::size_t>(i);
        const SampleKey key = sampler.key(range.first + i);
        EXPECT_EQ(batch.keys.at(at), key);
        EXPECT_EQ(batch.labels.at(at), key.index);
        EXPECT_EQ(images[2 * at], static_cast<float>(2 * key.index));
        EXPECT_EQ(images[2 * at + 1], static_cast<float>(2 * key.index + 1));
      }
    }
  }
}

// Three samples of five numbers, stored in each way.
Dataset stored_as(SampleType type) {
  Dataset data;
  data.extents = {5};
  data.size = 3;
  for (int i = 0; i < 15; ++i) {
    switch (type) {
      case SampleType::pixels:
        data.pixels.push_back(static_cast<std::uint8_t>(17 * i + (i % 2)));
        break;
      case SampleType::tokens:
        data.token_ids.push_back(static_cast<std::uint16_t>(4681 * i));
        break;
      case SampleType::floats:
        data.values.push_back(1.0f / static_cast<float>(i));
    }
  }
  return data;
}

// And to be had from the memory that was asked for.
TEST(Batches, HoldSamplesAsTheyAreStored) {
  for (const SampleType type : {SampleType::pixels, SampleType::tokens, SampleType::floats}) {
    SCOPED_TRACE(to_string(type));
    const Dataset data = stored_as(type);
    std::vector<std::byte> memory(15 * bytes_of(type));
    const Batch batch = assemble_samples(data, {{0, 2}, {0, 0}, {0, 1}}, 0, [&](std::size_t bytes) {
      EXPECT_EQ(bytes, memory.size());
      return std::shared_ptr<std::byte[]>(memory.data(), [](std::byte*) {});
    });
    EXPECT_EQ(batch.images.type(), type);
    EXPECT_EQ(batch.images.values(), 15u);
    EXPECT_EQ(batch.images.data(), memory.data());
    std::vector<std::byte> wanted(5 * bytes_of(type));
    for (std::size_t i = 0; i < 3; ++i) {
      data.copy_stored({0, std::vector{2, 0, 1}[i]}, wanted.data());
      EXPECT_TRUE(
          std::ranges::equal(wanted, std::span(memory).subspan(i * wanted.size(), wanted.size())));
    }
  }
}

TEST(Batches, TokensAreShortWhereTheyFit) {
  Dataset data = stored_as(SampleType::floats);
  data.values = {0, 1, 65535, 257, 5};
  data.size = 1;
  const auto is_short = [](Dataset of) {
    const std::vector<float> before = of.values;
    of.store_tokens_short();
    std::vector<float> after(before.size());
    of.copy_sample({0, 0}, after.data());
    EXPECT_EQ(after, before);
    return of.sample_type() == SampleType::tokens;
  };
  EXPECT_TRUE(is_short(data));
  for (const float value : {65536.0f, -1.0f, 0.5f, -0.0f}) {
    data.values[1] = value;
    EXPECT_FALSE(is_short(data)) << value;
  }
}

TEST(Prefetcher, EitherPartMayBeAbsent) {
  const Sampler sampler(5, 23, {4}, 0, 23);
  Dataset images = numbered(23);
  images.labels.clear();
  EXPECT_TRUE(prefetch(images, sampler, 0)->take(0).labels.empty());
  Dataset labels = numbered(23);
  labels.values.clear();
  const Batch batch = prefetch(labels, sampler, 0)->take(0);
  EXPECT_TRUE(batch.images.empty());
  EXPECT_EQ(batch.labels.size(), 4u);
}

TEST(Prefetcher, WorksAheadByItsDepth) {
  std::atomic<int> made = 0;
  const auto settle = [&made](int wanted) {
    test::comes_true([&] { return made >= wanted; });
    std::this_thread::sleep_for(20ms);  // time to go too far
    return made.load();
  };
  Prefetcher prefetcher(
      [&made](Minibatch p) {
        ++made;
        return Batch{p, 0, {}, {}, {}};
      },
      0, 100, kDeadline, 2);
  EXPECT_EQ(settle(2), 2);
  prefetcher.take(0);
  EXPECT_EQ(settle(3), 3);
}

TEST(Prefetcher, HandsOutAheadWhatIsThereAndNext) {
  std::atomic<bool> go = false;
  Prefetcher prefetcher(
      [&go](Minibatch p) {
        while (p == 1 && !go) std::this_thread::sleep_for(1ms);
        return Batch{p, 0, {}, {}, {}};
      },
      0, 3, kDeadline);
  EXPECT_FALSE(prefetcher.try_take(1));  // 0 is next
  std::optional<Batch> first;
  test::comes_true([&] { return (first = prefetcher.try_take(0)).has_value(); });
  ASSERT_TRUE(first);
  EXPECT_EQ(first->minibatch, 0);
  EXPECT_FALSE(prefetcher.try_take(1));  // in the making
  go = true;
  EXPECT_EQ(prefetcher.take(1).minibatch, 1);
  EXPECT_EQ(prefetcher.take(2).minibatch, 2);
  EXPECT_FALSE(prefetcher.try_take(3));
}

TEST(Prefetcher, StopsBeforeTheEnd) {
  std::atomic<int> made = 0;
  {
    Prefetcher prefetcher(
        [&made](Minibatch p) {
          ++made;
          return Batch{p, 0, {}, {}, {}};
        },
        0, 1'000'000, kDeadline, 3);
    prefetcher.take(0);
  }
  EXPECT_LE(made, 4);
}

TEST(Prefetcher, NothingToDo) {
  const Dataset data = numbered(4);
  const Sampler sampler(5, 4, {4}, 4, 4);
  EXPECT_EQ(sampler.count(0), 0);
  const auto prefetcher = prefetch(data, sampler, 0);
}

TEST(Prefetcher, FailureReachesTakeAfterWhatWasGood) {
  Prefetcher prefetcher(
      [](Minibatch p) {
        if (p == 2) throw std::runtime_error("no such sample");
        return Batch{p, 1, {}, {}, {}};
      },
      0, 10, kDeadline);
  EXPECT_EQ(prefetcher.take(0).count, 1);
  EXPECT_EQ(prefetcher.take(1).count, 1);
  for (int turn : {0, 1}) {
    EXPECT_THAT(error_of<std::runtime_error>([&] { prefetcher.take(2); }),
                HasSubstr("no such sample"))
        << turn;
  }
}

TEST(Prefetcher, DeadlineNamesTheMinibatch) {
  std::atomic<bool> go = false;
  Prefetcher prefetcher(
      [&go](Minibatch p) {
        while (p == 7 && !go) std::this_thread::sleep_for(1ms);
        return Batch{p, 0, {}, {}, {}};
      },
      6, 10, 0.05);
  // A busy machine may be late with minibatch 6 too: that is not the subject.
  for (bool taken = false; !taken;) {
    try {
      prefetcher.take(6);
      taken = true;
    } catch (const SystemError&) {
    }
  }
  EXPECT_THAT(error_of<SystemError>([&] { prefetcher.take(7); }),
              AllOf(HasSubstr("minibatch 7"), HasSubstr("0.05 s")));
  go = true;
}

}  // namespace prefetch_test
}  // namespace hetpipe
