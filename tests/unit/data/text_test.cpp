// SPDX-License-Identifier: Apache-2.0
#include "runtime/data/text.h"

#include <algorithm>

#include <gmock/gmock.h>

#include "base/error.h"
#include "runtime/data/prefetch.h"
#include "tests/unit/data/scratch_folder.h"

namespace hetpipe {
namespace data_text_test {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Of all samples, one after another.
std::vector<std::int32_t> tokens_of(const Dataset& data) {
  std::vector<std::int32_t> all;
  std::vector<float> sample(static_cast<std::size_t>(data.sample_values()));
  for (std::int64_t i = 0; i < data.size; ++i) {
    data.copy_sample({0, i}, sample.data());
    all.insert(all.end(), sample.begin(), sample.end());
  }
  return all;
}
std::vector<std::int32_t> labels_of(const Dataset& data) {
  std::vector<std::int32_t> all;
  for (std::int64_t i = 0; i < data.size; ++i) data.append_labels(i, all);
  return all;
}

class TextFile : public ::testing::Test {
 protected:
  // 40 bytes, of which 36 are for training. The distinct ones: '\n' ' ' 'a' 'b' 0xff.
  TextFile() {
    write_plain(file(),
                "ab b\xff"
                "a\nab b ab\nabab b a bab\xff"
                "ab ba\nb aabb");
  }
  fs::path file() const { return folder_ / "text.txt"; }
  std::string spec(int tokens) const {
    return "text:" + file().string() + ",T=" + std::to_string(tokens);
  }

  ScratchFolder folder_;
};

TEST_F(TextFile, TokensArePlacesAmongTheDistinctBytes) {
  ASSERT_EQ(fs::file_size(file()), 40u);
  const Dataset data = load_text_dataset(spec(3), Split::train, Parts::both);
  EXPECT_EQ(data.classes, 5);
  EXPECT_EQ(data.tokens, 3);
  EXPECT_EQ(data.labels_per_sample, 3);
  EXPECT_THAT(data.sample_shape(), ElementsAre(3));
  EXPECT_EQ(data.sample_values(), 3);
  EXPECT_EQ(data.size, 11);  // 3 * 11 + 1 <= 36 < 3 * 12 + 1
  ASSERT_EQ(tokens_of(data).size(), 33u);
  ASSERT_EQ(labels_of(data).size(), 33u);
  std::vector<float> sample(3);
  data.copy_sample({0, 0}, sample.data());
  EXPECT_THAT(sample, ElementsAre(2, 3, 1));             // "ab "
  EXPECT_THAT(data.labels_of(0), ElementsAre(3, 1, 3));  // "b b"
  data.copy_sample({0, 1}, sample.data());
  EXPECT_THAT(sample, ElementsAre(3, 4, 2));             // "b\xffa"
  EXPECT_THAT(data.labels_of(1), ElementsAre(4, 2, 0));  // "\xffa\n"
}

// Windows follow each other: a label is the next token, also across windows.
TEST_F(TextFile, LabelsAreTheNextTokens) {
  for (Split split : {Split::train, Split::test}) {
    for (int tokens : {1, 2, 3}) {
      const Dataset data = load_text_dataset(spec(tokens), split, Parts::both);
      const std::vector<std::int32_t> all = tokens_of(data), labels = labels_of(data);
      for (std::size_t i = 0; i + 1 < all.size(); ++i) EXPECT_EQ(labels[i], all[i + 1]);
    }
  }
}

// The same windows; labels are the tokens themselves, and there is one more class, the mask.
TEST_F(TextFile, ForMaskedTokensLabelsAreTheTokens) {
  for (Split split : {Split::train, Split::test}) {
    const Dataset next = load_text_dataset(spec(3), split, Parts::both);
    const Dataset data = load_text_dataset(spec(3), split, Parts::both, TextTask::masked_tokens);
    EXPECT_EQ(data.classes, 6);
    EXPECT_EQ(data.mask_token, 5);
    EXPECT_EQ(next.mask_token, std::nullopt);
    EXPECT_EQ(data.size, next.size);
    EXPECT_EQ(tokens_of(data), tokens_of(next));
    EXPECT_EQ(labels_of(data), tokens_of(data));
    EXPECT_NE(data.fingerprint, next.fingerprint);
  }
  const auto masked = [&](int tokens) {
    load_text_dataset(spec(tokens), Split::train, Parts::both, TextTask::masked_tokens);
  };
  EXPECT_THAT(error_of<UserError>([&] { masked(1); }), HasSubstr("T=1 (masked tokens"));
}

TEST_F(TextFile, TheLastTenthIsTheTestSplit) {
  const Dataset data = load_text_dataset(spec(3), Split::test, Parts::both);
  EXPECT_EQ(data.classes, 5);  // of the whole file
  EXPECT_EQ(data.size, 1);
  EXPECT_THAT(tokens_of(data), ElementsAre(2, 2, 3));  // "aab"
  EXPECT_THAT(labels_of(data), ElementsAre(2, 3, 3));  // "abb"
}

TEST_F(TextFile, EitherPartGivesTheSameFingerprint) {
  const Dataset both = load_text_dataset(spec(2), Split::train, Parts::both);
  const Dataset images = load_text_dataset(spec(2), Split::train, Parts::images);
  const Dataset labels = load_text_dataset(spec(2), Split::train, Parts::labels);
  EXPECT_FALSE(images.has_labels());
  EXPECT_FALSE(labels.has_images());
  EXPECT_EQ(tokens_of(images), tokens_of(both));
  EXPECT_EQ(labels_of(labels), labels_of(both));
  EXPECT_EQ(images.fingerprint, both.fingerprint);
  EXPECT_EQ(labels.fingerprint, both.fingerprint);
  EXPECT_NE(load_text_dataset(spec(3), Split::train, Parts::both).fingerprint, both.fingerprint);
  EXPECT_NE(load_text_dataset(spec(2), Split::test, Parts::both).fingerprint, both.fingerprint);
}

TEST_F(TextFile, BatchesHoldEverySamplesLabels) {
  const Dataset data = load_text_dataset(spec(3), Split::train, Parts::both);
  const Sampler sampler(5, data.size, {4}, 0, data.size);
  const SampleSpan all{0, sampler.samples(0, 0).count};
  const Batch batch = assemble_batch(data, sampler, 0, 0, std::span(&all, 1));
  ASSERT_EQ(batch.count, 4);
  ASSERT_EQ(batch.images.values(), 12u);
  ASSERT_EQ(batch.labels.size(), 12u);
  for (std::size_t i = 0; i < 4; ++i) {
    const auto labels = data.labels_of(batch.keys[i].index);
    EXPECT_THAT(std::span(batch.labels).subspan(3 * i, 3),
                ::testing::ElementsAreArray(labels.begin(), labels.end()));
    EXPECT_EQ(batch.images.as<std::uint16_t>()[3 * i],
              tokens_of(data)[3 * static_cast<std::size_t>(batch.keys[i].index)]);
  }
}

TEST_F(TextFile, SaysWhatIsWrong) {
  const auto error = [](const std::string& spec) {
    return error_of<UserError>([&] { load_text_dataset(spec, Split::train, Parts::both); });
  };
  EXPECT_TRUE(is_text(spec(3)));
  EXPECT_FALSE(is_text(file().string()));
  EXPECT_THAT(error("text:"), HasSubstr("names no file"));
  EXPECT_THAT(error("text:,T=3"), HasSubstr("names no file"));
  for (const std::string bad : {"0", "-1", "x", "3x", "", "65537"}) {
    EXPECT_THAT(error("text:" + file().string() + ",T=" + bad), HasSubstr("T=" + bad + " (not"));
  }
  EXPECT_THAT(error("text:/no/such/file"), HasSubstr("/no/such/file"));
  EXPECT_THAT(error(spec(4)), AllOf(HasSubstr("40 bytes"), HasSubstr("T = 4")));
  EXPECT_THAT(error("text:" + file().string()), HasSubstr("T = 64"));  // the default
  write_plain(file(), std::string(2000, 'a'));
  EXPECT_THAT(error(spec(4)), HasSubstr("1 distinct bytes"));
  write_plain(file(), "");
  EXPECT_THAT(error(spec(4)), AllOf(HasSubstr("0 distinct bytes"), HasSubstr("0 bytes")));
}

// The text that Karpathy's char-rnn made known: 1,115,394 characters, 65 of them distinct.
TEST(TinyShakespeare, IsReadAsPublished) {
  const fs::path file =
      fs::path(HETPIPE_SOURCE_DIR).parent_path() / "shared/data/tinyshakespeare/input.txt";
  if (!fs::exists(file)) GTEST_SKIP() << file << " is not there";
  const Dataset train = load_text_dataset("text:" + file.string(), Split::train, Parts::both);
  const Dataset test = load_text_dataset("text:" + file.string(), Split::test, Parts::both);
  EXPECT_EQ(train.classes, 65);
  EXPECT_EQ(train.size, 1003854 / 64);
  EXPECT_EQ(test.size, 111540 / 64);
  // "First": 'F' comes after "\n !$&',-.3:;?ABCDE", the small letters after 'Z'.
  std::vector<float> first(64);
  train.copy_sample({0, 0}, first.data());
  EXPECT_THAT(std::span(first).first(5), ElementsAre(18, 47, 56, 57, 58));
}

}  // namespace data_text_test
}  // namespace hetpipe
