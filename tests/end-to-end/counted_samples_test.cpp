// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <array>
#include <atomic>
#include <cmath>
#include <random>

#include "base/hash.h"
#include "base/random.h"
#include "base/text.h"
#include "partitioner/plan/system.h"
#include "runtime/data/image_dataset.h"
#include "runtime/training/exact.h"
#include "tests/end-to-end/training.h"

// Which samples weights have seen, and how they were transformed, counted in the weights: each
// sample is one bright pixel, and the network's loss is the sum of pixels by weights, so that SGD
// at a rate of the minibatch takes one from a weight for each time that its pixel was trained on.
namespace hetpipe {
namespace counted_samples_test {

constexpr int kSide = 8;
constexpr int kSamples = kSide * kSide / 2;  // the left half; flips fill the other one
constexpr int kEpochs = 3;
constexpr std::uint64_t kSeed = 7;

Dataset bright_pixels() {
  Dataset data;
  data.name = "bright pixels";
  data.height = data.width = kSide;
  data.channels = 1;
  data.classes = 2;
  data.size = kSamples;
  data.fingerprint = 4711;
  data.labels.resize(kSamples);
  data.pixels.resize(kSamples * kSide * kSide);
  for (int i = 0; i < kSamples; ++i) {
    data.pixels[static_cast<std::size_t>(i * kSide * kSide + i / (kSide / 2) * kSide +
                                         i % (kSide / 2))] = 255;
  }
  ImageRules rules;
  rules.train = parse_transforms("RandomHorizontalFlip", "flip");
  rules.seed = kSeed;
  return with_transforms(std::move(data), rules, Split::train, Parts::both);
}

// docs/data.md, "Images: transforms".
bool flips(int epoch, int sample) {
  const std::uint64_t key =
      random_key({kSeed, hash_text("transforms"), static_cast<std::uint64_t>(epoch),
                  static_cast<std::uint64_t>(sample), 0});
  return philox(key, {0, 0, 0, 0})[0] < 0x80000000;
}

// How often each pixel was bright in all epochs.
std::vector<float> counts_of_all() {
  std::vector<float> counts(kSide * kSide);
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    for (int i = 0; i < kSamples; ++i) {
      const int column = i % (kSide / 2);
      const int seen = flips(epoch, i) ? kSide - 1 - column : column;
      ++counts[static_cast<std::size_t>(i / (kSide / 2) * kSide + seen)];
    }
  }
  return counts;
}

// Those in a checkpoint, twice: of the first stage's weights and of the last one's.
std::array<std::vector<float>, 2> counts_of(const Checkpoint& checkpoint) {
  std::array<std::vector<float>, 2> counts;
  for (const NamedTensor& tensor : checkpoint.parameters) {
    std::vector<float>& of = counts[tensor.name == "first" ? 0 : 1];
    for (const float weight : tensor.values) of.push_back(-weight);
  }
  return counts;
}

Training counting(Dataset data) {
  Training training;
  training.model = HETPIPE_SOURCE_DIR "/tests/models/counts";
  training.sample = {kSide, kSide, 1};
  training.classes = 2;
  training.samples = kSamples;
  training.data = std::move(data);
  training.epochs = kEpochs;
  training.seed = kSeed;
  return training;
}

class Sequence {
 public:
  explicit Sequence(unsigned number) : random_(number), data_(bright_pixels()) {}

  // Trainings that are stopped, or killed and resumed from any checkpoint, until one ends.
  void run() {
    std::optional<From> from;
    std::optional<Training> before;
    for (int start = 0; consumed(from) < kEpochs * kSamples; ++start) {
      const bool same_plan = before && one_in(3);
      Training training = same_plan ? *before : any_plan(consumed(from));
      if (from) from->exact = same_plan && from->checkpoint.exact.has_value();
      SCOPED_TRACE(format("start %d from %d samples, %zu workers, minibatches of %d, Nm = %d",
                          start, consumed(from), training.workers.size(),
                          training.workers.front().minibatch, training.in_flight));
      const bool last = start == kMostStarts;
      const int polls = last || one_in(2) ? 1 << 30 : drawn(1, 300);
      std::atomic<int> polled = 0;
      const Trained trained = Bench(training).train(from, [&]() -> std::optional<int> {
        return ++polled > polls ? std::optional(SIGUSR1) : std::nullopt;
      });
      ASSERT_FALSE(trained.checkpoints.empty());
      auto end = std::prev(trained.checkpoints.end());
      const bool killed = !last && one_in(2);
      if (killed) {
        end = std::next(trained.checkpoints.begin(),
                        drawn(0, static_cast<int>(trained.checkpoints.size()) - 1));
      }
      from = From{end->second};
      before = training;
      expect_counted(from->checkpoint);
      if (::testing::Test::HasFailure()) return;
    }
    const auto counts = counts_of(from->checkpoint);
    EXPECT_EQ(counts[0], counts_of_all());
    EXPECT_EQ(counts[1], counts_of_all());
  }

 private:
  static constexpr int kMostStarts = 5;

  int drawn(int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random_);
  }
  bool one_in(int n) { return drawn(1, n) == 1; }
  static int consumed(const std::optional<From>& from) {
    return from ? static_cast<int>(from->checkpoint.sampler.consumed) : 0;
  }

  Training any_plan(int from) {
    // Minibatches are full to the end, so that each sample weighs the same.
    int minibatch = 1 << drawn(0, 2);
    while ((kEpochs * kSamples - from) % minibatch != 0) minibatch /= 2;
    Training training = counting(data_);
    training.in_flight = drawn(1, 3);
    training.distance = drawn(0, 2);
    training.servers = drawn(1, 2);
    const int workers = drawn(1, 3);
    for (int w = 0; w < workers; ++w) {
      Training::Worker& worker = training.workers.emplace_back();
      worker.minibatch = minibatch;
      const int stages = drawn(1, 3);
      if (stages > 1) worker.stage_ends.push_back(2);
      if (stages > 2) worker.stage_ends.push_back(4);
    }
    training.hosted = training.servers <= workers && one_in(2);
    training.optimizer = {.name = "sgd", .rate = static_cast<float>(minibatch)};
    return training;
  }

  // As many as were consumed, and no sample more than once more than another.
  static void expect_counted(const Checkpoint& checkpoint) {
    const auto samples = static_cast<float>(checkpoint.sampler.consumed);
    const float whole = std::floor(samples / kSamples);
    for (const std::vector<float>& counts : counts_of(checkpoint)) {
      ASSERT_EQ(counts.size(), kSide * kSide);
      float all = 0;
      for (int i = 0; i < kSamples; ++i) {
        const int left = i / (kSide / 2) * kSide + i % (kSide / 2);
        const int right = left + kSide - 1 - 2 * (i % (kSide / 2));
        const float count =
            counts[static_cast<std::size_t>(left)] + counts[static_cast<std::size_t>(right)];
        EXPECT_TRUE(count == whole || count == whole + 1)
            << "sample " << i << " counts " << count << " of " << samples;
        all += count;
      }
      EXPECT_EQ(all, samples);
    }
  }

  std::mt19937 random_;
  Dataset data_;
};

void interrupt(unsigned first, unsigned end) {
  for (unsigned number = first; number < end && !::testing::Test::HasFailure(); ++number) {
    SCOPED_TRACE(format("sequence %u", number));
    Sequence(number).run();
  }
}

TEST(CountedSamples, NoneIsLostOrDoubledHoweverATrainingIsInterrupted) { interrupt(0, 10); }
TEST(CountedSamplesCampaign, NoneIsLostOrDoubledHoweverATrainingIsInterrupted) {
  interrupt(10, 210);
}

// The second stage reads samples alone, and no activation brings it a label.
TEST(CountedSamples, AStageThatNoActivationReaches) {
  for (const std::string pull : {"bound", "newest"}) {
    Training training = counting(bright_pixels());
    training.workers = {{4, {2, 4}}, {4, {2, 4}, {{}, {1, 3}}}};
    training.in_flight = 2;
    training.distance = 1;
    training.pull = pull;
    training.optimizer = {.name = "sgd", .rate = 4};
    const Trained trained = Bench(training).train();
    EXPECT_EQ(counts_of(std::prev(trained.checkpoints.end())->second)[1], counts_of_all()) << pull;
  }
}

TEST(CountedSamples, EverySystemTrainsItLikeItsSerialProgram) {
  for (const System& system : systems()) {
    SCOPED_TRACE(system.name);
    const bool flush = traits(system.schedule).has_flush;
    Training training = counting(bright_pixels());
    training.system = system.name;
    training.workers = {{12, {2, 4}}};
    if (system.name != "asp") training.workers.push_back({8, {2, 4}});
    training.in_flight = flush || traits(system.weights).one_version ? 1 : 3;
    training.micro_batches = flush || system.name == "xpipe" || system.name == "timeprest" ? 2 : 1;
    const Bench bench(training);
    expect_same(bench.train(), bench.serial_system(), bench.model());
  }
}

}  // namespace counted_samples_test
}  // namespace hetpipe
