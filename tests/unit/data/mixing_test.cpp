// SPDX-License-Identifier: Apache-2.0
#include "runtime/data/mixing.h"

#include <gmock/gmock.h>

#include <fstream>
#include <map>
#include <sstream>

#include "base/error.h"
#include "runtime/data/prefetch.h"
#include "tests/end-to-end/serial_mixing.h"

namespace hetpipe {
namespace mixing_test {

using ::testing::AllOf;
using ::testing::HasSubstr;

// docs/mixing.py prints the golden file; the test sample_order compares the two.
TEST(Mixing, DrawsAsTheReferenceInPythonDoes) {
  std::ifstream golden(HETPIPE_SOURCE_DIR "/tests/golden/mixing.txt");
  std::uint64_t seed = 0;
  std::int64_t size = 0;
  ImageSize image;
  MixRules rules;
  int mixups = 0, boxes = 0;
  for (std::string line; std::getline(golden, line);) {
    SCOPED_TRACE(line);
    std::istringstream words(line);
    if (line.starts_with("# ")) {
      words.ignore(2) >> seed >> size >> image.height >> image.width >> rules.mixup_alpha >>
          rules.cutmix_alpha;
      continue;
    }
    std::int64_t position = 0, epoch = 0, own = 0, other = 0;
    double share = 0;
    words >> position >> epoch >> own >> other >> share;
    const Sampler sampler(seed, size, {1}, 0, 1000);
    EXPECT_EQ(sampler.key(position), (SampleKey{epoch, own}));
    EXPECT_EQ(sampler.partner(position), (SampleKey{epoch, other}));
    const Mix mix = drawn_mix(rules, seed, {epoch, own}, image);
    EXPECT_NEAR(mix.share, share, 1e-6);
    if (Crop box; words >> box.top >> box.left >> box.height >> box.width) {
      ++boxes;
      ASSERT_TRUE(mix.box.has_value());
      EXPECT_EQ(std::tie(mix.box->top, mix.box->left, mix.box->height, mix.box->width),
                std::tie(box.top, box.left, box.height, box.width));
    } else {
      ++mixups;
      EXPECT_FALSE(mix.box.has_value());
    }
  }
  EXPECT_EQ(mixups + boxes, 77);
  EXPECT_GT(mixups, 30);
  EXPECT_GT(boxes, 30);
}

// Mean and variance of Beta(a, a): 1/2 and 1 / (4 (2a + 1)).
TEST(Mixing, SharesAreBetaDistributed) {
  for (const double alpha : {0.1, 0.2, 1.0, 3.0}) {
    const MixRules rules{.mixup_alpha = alpha};
    double sum = 0, squares = 0;
    constexpr int kCount = 20'000;
    for (int i = 0; i < kCount; ++i) {
      const double share = static_cast<double>(drawn_mix(rules, 1, {i % 7, i}, {1, 1}).share);
      ASSERT_GE(share, 0);
      ASSERT_LE(share, 1);
      sum += share - 0.5;
      squares += (share - 0.5) * (share - 0.5);
    }
    EXPECT_NEAR(sum / kCount, 0, 0.015) << alpha;
    const double variance = 1 / (4 * (2 * alpha + 1));
    EXPECT_NEAR(squares / kCount, variance, 0.05 * variance) << alpha;
  }
}

TEST(Mixing, SmallestAndLargestDrawsAreShares) {
  const double last = 1 - 0x1p-24;
  for (const double alpha : {1e-3, 0.2, 1.0, 1000.0}) {
    for (const double first : {0.0, 0x1p-24, last}) {
      for (const double second : {0.0, 0.25, 0.5, 0.75, last}) {
        const double share = beta_share(alpha, first, second);
        EXPECT_TRUE(share >= 0 && share <= 1) << alpha << " " << first << " " << second;
      }
    }
  }
}

Dataset images(bool bytes) {
  Dataset data;
  data.name = "images";
  data.height = 5;
  data.width = 4;
  data.channels = 3;
  data.classes = 6;
  data.size = 13;
  for (int i = 0; i < data.size * 60; ++i) {
    if (bytes) {
      data.pixels.push_back(static_cast<std::uint8_t>(i * 37 % 251));
    } else {
      data.values.push_back(static_cast<float>(i * 37 % 251) / 7);
    }
  }
  for (int i = 0; i < data.size; ++i) data.labels.push_back(i % 6);
  if (bytes) data.scale = {3, {0.5f, 0.25f, 0.125f}, {0.5f, 0.75f, 2}};
  return data;
}

// First stages hold images, last stages labels, each of the shares that it computes.
TEST(Mixing, IsTheDefinitionsForEveryPartAndShare) {
  for (const bool bytes : {true, false}) {
    for (const MixRules rules : {MixRules{0.5, 0}, MixRules{0, 1}, MixRules{1, 0.5}}) {
      Dataset data = images(bytes);
      data.mixes = rules;
      Dataset pixels = data, labels = data;
      pixels.labels.clear();
      labels.pixels.clear();
      labels.values.clear();
      const Sampler sampler(9, data.size, {8, 3}, 0, 30);
      for (Minibatch p = 0; p < sampler.count(0); ++p) {
        const int count = sampler.samples(0, p).count;
        const std::vector<SampleSpan> all{{0, count}}, split{{0, 2}, {2, count}};
        const Batch whole = assemble_batch(data, sampler, 0, p, all);
        const bool floats = !bytes || rules.mixup_alpha > 0;
        ASSERT_EQ(whole.images.type(), floats ? SampleType::floats : SampleType::pixels);
        for (int i = 0; i < count; ++i) {
          const std::int64_t position = sampler.samples(0, p).first + i;
          std::vector<float> wanted(60);
          data.copy_sample(sampler.key(position), wanted.data());
          const SerialMixed mixed = mix_serially(data, sampler, position, wanted);
          for (std::size_t v = 0; v < 60; ++v) {
            const std::size_t at = static_cast<std::size_t>(i) * 60 + v;
            const float got =
                floats ? whole.images.as<float>()[at]
                       : scaled(whole.images.scale(), whole.images.as<std::uint8_t>()[at],
                                static_cast<std::int64_t>(v));
            EXPECT_EQ(got, wanted[v]);
          }
          const MixedLabel& got = whole.mixed[static_cast<std::size_t>(i)];
          EXPECT_EQ(got, (MixedLabel{mixed.other, mixed.share}));
          EXPECT_EQ(whole.labels[static_cast<std::size_t>(i)],
                    data.labels_of(sampler.key(position).index)[0]);
        }
        const Batch by_label = assemble_batch(labels, sampler, 0, p, split);
        EXPECT_EQ(by_label.labels, whole.labels);
        EXPECT_EQ(by_label.mixed, whole.mixed);
        EXPECT_TRUE(by_label.images.empty());
        const Batch by_pixel = assemble_batch(pixels, sampler, 0, p, split, ordinary_memory, 3);
        EXPECT_TRUE(std::ranges::equal(std::span(by_pixel.images.data(), by_pixel.images.bytes()),
                                       std::span(whole.images.data(), whole.images.bytes())));
        EXPECT_TRUE(by_pixel.mixed.empty());
      }
    }
  }
}

class CountedReads final : public SampleStore {
 public:
  SampleType type() const override { return SampleType::pixels; }
  void read(SampleKey key, std::byte* out) const override {
    ++reads[key.index];
    std::fill_n(out, 60, std::byte{1});
  }
  mutable std::map<std::int64_t, int> reads;
};

// A sample is read once for itself and for its neighbour.
TEST(Mixing, ReadsOneSampleMoreOfARun) {
  Dataset data = images(true);
  data.pixels.clear();
  const auto store = std::make_shared<CountedReads>();
  data.store = store;
  data.mixes = {.cutmix_alpha = 1};
  const Sampler sampler(9, data.size, {8}, 0, 13);
  assemble_positions(data, sampler, std::vector<std::int64_t>{1, 2, 3, 4, 8, 9});
  EXPECT_EQ(store->reads.size(), 8u);
  for (const auto& [index, times] : store->reads) EXPECT_EQ(times, 1) << index;
}

TEST(Mixing, RefusesWhatHasNoClass) {
  const auto refusal = [](const Dataset& data) {
    try {
      check_mixes(data, {.cutmix_alpha = 1});
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(refusal(images(true)), "");
  EXPECT_EQ(refusal(images(false)), "");
  Dataset text = images(false);
  text.tokens = 60;
  EXPECT_THAT(refusal(text), AllOf(HasSubstr("--cutmix-alpha"), HasSubstr("holds others")));
  Dataset numbers = images(false);
  numbers.number_labels = true;
  EXPECT_THAT(refusal(numbers), HasSubstr("numbers as labels"));
  Dataset maps = images(false);
  maps.labels_per_sample = 20;
  EXPECT_THAT(refusal(maps), HasSubstr("several labels"));
  Dataset ignored = images(false);
  ignored.skips = true;
  EXPECT_THAT(refusal(ignored), HasSubstr("without a class"));
  check_mixes(text, {});
}

}  // namespace mixing_test
}  // namespace hetpipe
