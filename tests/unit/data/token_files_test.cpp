// SPDX-License-Identifier: Apache-2.0
#include "runtime/data/token_files.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "runtime/data/test_share.h"
#include "tests/unit/data/scratch_folder.h"

namespace hetpipe {
namespace data_token_files_test {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

template <class Value>
std::string bytes_of_values(const std::vector<Value>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(Value)};
}

class TokenFiles : public ::testing::Test {
 protected:
  TokenFiles() { setenv("HETPIPE_CACHE", folder_.path().c_str(), 1); }
  ~TokenFiles() override { unsetenv("HETPIPE_CACHE"); }

  static std::vector<std::uint16_t> counted(int count) {
    std::vector<std::uint16_t> tokens;
    for (int i = 0; i < count; ++i) tokens.push_back(static_cast<std::uint16_t>(i * 37 % 100));
    return tokens;
  }
  std::string spec(const std::string& file, const std::string& options = ",T=4") const {
    return "tokens:" + (folder_ / file).string() + options;
  }
  static std::vector<float> sample(const Dataset& data, std::int64_t index) {
    std::vector<float> values(static_cast<std::size_t>(data.sample_values()));
    data.copy_sample({0, index}, values.data());
    return values;
  }
  // Megatron-LM's index of sequences with these lengths.
  static std::string index(std::uint8_t code, const std::vector<std::int32_t>& lengths,
                           std::int64_t each) {
    std::vector<std::int64_t> offsets;
    std::int64_t next = 0;
    for (const std::int32_t length : lengths) {
      offsets.push_back(next);
      next += length * each;
    }
    return std::string("MMIDIDX\0\0", 9) + bytes_of_values(std::vector<std::uint64_t>{1}) +
           static_cast<char>(code) +
           bytes_of_values(std::vector<std::uint64_t>{lengths.size(), 2}) +
           bytes_of_values(lengths) + bytes_of_values(offsets) +
           bytes_of_values(std::vector<std::int64_t>{0, static_cast<std::int64_t>(lengths.size())});
  }

  ScratchFolder folder_;
};

TEST_F(TokenFiles, AFolderOfNanoGpt) {
  write_plain(folder_ / "train.bin", bytes_of_values(counted(42)));
  write_plain(folder_ / "val.bin", bytes_of_values(counted(9)));
  const Dataset train = open_token_files(spec(""), Split::train, Parts::both);
  EXPECT_EQ(train.size, 10);      // 4 * 10 + 1 <= 42
  EXPECT_EQ(train.classes, 100);  // 27 * 37 % 100 == 99
  EXPECT_THAT(sample(train, 1), ElementsAre(48, 85, 22, 59));
  EXPECT_THAT(train.labels_of(1), ElementsAre(85, 22, 59, 96));
  const Dataset test = open_token_files(spec(""), Split::test, Parts::both);
  EXPECT_EQ(test.size, 2);
  EXPECT_EQ(test.classes, 100);  // of the training file
  const Dataset masked =
      open_token_files(spec(""), Split::train, Parts::both, TextTask::masked_tokens);
  EXPECT_EQ(masked.mask_token, 100);
  EXPECT_THAT(masked.labels_of(1), ElementsAre(48, 85, 22, 59));
}

TEST_F(TokenFiles, OneFileKeepsItsLastTenthForTests) {
  write_plain(folder_ / "all.bin", bytes_of_values(counted(100)));
  const Dataset train = open_token_files(spec("all.bin"), Split::train, Parts::both);
  const Dataset test = open_token_files(spec("all.bin"), Split::test, Parts::both);
  EXPECT_EQ(train.size, 22);
  EXPECT_EQ(test.size, 2);
  EXPECT_EQ(sample(test, 0)[0], 90 * 37 % 100);
}

TEST_F(TokenFiles, TypesAndVocabularies) {
  std::vector<std::uint32_t> large{0, 70000, 3, 1, 2, 99999, 5, 6};
  for (int i = 0; i < 100; ++i) large.push_back(7);
  write_plain(folder_ / "large.bin", bytes_of_values(large));
  const Dataset data =
      open_token_files(spec("large.bin", ",T=4,type=uint32"), Split::train, Parts::both);
  EXPECT_EQ(data.classes, 100000);
  EXPECT_EQ(data.sample_type(), SampleType::floats);
  EXPECT_THAT(sample(data, 0), ElementsAre(0, 70000, 3, 1));
  EXPECT_THAT(data.labels_of(0), ElementsAre(70000, 3, 1, 2));
  EXPECT_THAT(error_of<UserError>([&] {
                open_token_files(spec("large.bin", ",T=4,type=uint32,vocabulary=70001"),
                                 Split::train, Parts::both);
              }),
              AllOf(HasSubstr("large.bin: token 5 is 99999"), HasSubstr("has 70001")));
}

TEST_F(TokenFiles, OfMegatron) {
  const std::vector<std::int32_t> tokens{1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2, 3, 4, 5,
                                         6, 7, 8, 9, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0};
  write_plain(folder_ / "m.bin", bytes_of_values(tokens));
  write_plain(folder_ / "m.idx", index(4, {10, 5, 15}, 4));
  for (const char* name : {"m.idx", "m.bin"}) {
    const Dataset data = open_token_files(spec(name, ",T=2"), Split::train, Parts::both);
    EXPECT_EQ(data.size, 13);
    EXPECT_EQ(data.classes, 10);
    EXPECT_THAT(sample(data, 2), ElementsAre(5, 6));
  }
  const auto error = [&] {
    return error_of<UserError>(
        [&] { open_token_files(spec("m.idx", ",T=2"), Split::train, Parts::both); });
  };
  write_plain(folder_ / "m.idx", index(4, {10, 5, 14}, 4));
  EXPECT_THAT(error(), HasSubstr("describes 29 tokens, 116 bytes"));
  write_plain(folder_ / "m.idx", index(8, {10, 5, 15}, 4));
  EXPECT_THAT(error(), HasSubstr("sequence 1 begins at byte 40"));
  write_plain(folder_ / "m.idx", index(7, {10, 5, 15}, 4));
  EXPECT_THAT(error(), HasSubstr("of type 7"));
  const std::string whole = index(4, {10, 5, 15}, 4);
  for (std::size_t length = 0; length < whole.size(); ++length) {
    write_plain(folder_ / "m.idx", whole.substr(0, length));
    EXPECT_THAT(error(), HasSubstr("m.idx: ")) << length;
  }
}

TEST_F(TokenFiles, SaysWhatIsWrong) {
  write_plain(folder_ / "all.bin", bytes_of_values(counted(100)));
  const auto error = [&](const std::string& of) {
    return error_of<UserError>([&] { open_token_files(of, Split::train, Parts::both); });
  };
  EXPECT_THAT(error("tokens:"), HasSubstr("names no file"));
  EXPECT_THAT(error(spec("all.bin", ",T=0")), HasSubstr("'0' is no number"));
  EXPECT_THAT(error(spec("all.bin", ",t=4")), HasSubstr("'t=4' is not known"));
  EXPECT_THAT(error(spec("all.bin", ",type=int8")), HasSubstr("'type=int8' is not known"));
  EXPECT_THAT(error(spec("none.bin")), HasSubstr("none.bin"));
  EXPECT_THAT(error(spec("all.bin", ",T=50")), HasSubstr("has 10 tokens for testing"));
  write_plain(folder_ / "odd.bin", "123");
  EXPECT_THAT(error(spec("odd.bin")), HasSubstr("has 3 bytes (tokens have 2 each)"));
}

// A file that is written to while it is in use is noticed.
TEST_F(TokenFiles, MustNotChange) {
  write_plain(folder_ / "all.bin", bytes_of_values(counted(100)));
  const Dataset data = open_token_files(spec("all.bin"), Split::train, Parts::both);
  EXPECT_EQ(sample(data, 0)[1], 37);
  fs::resize_file(folder_ / "all.bin", 60);
  EXPECT_THAT(error_of<UserError>([&] { sample(data, 0); }), HasSubstr("has changed while"));
}

// Each sample goes to one of both splits.
TEST_F(TokenFiles, SharedOut) {
  write_plain(folder_ / "all.bin", bytes_of_values(counted(100)));
  const Dataset whole = open_token_files(spec("all.bin"), Split::train, Parts::both);
  const Dataset train = split_of(whole, .25, Split::train, Parts::both);
  const Dataset test = split_of(whole, .25, Split::test, Parts::both);
  EXPECT_EQ(train.size + test.size, whole.size);
  std::vector<std::vector<float>> parts, all;
  for (std::int64_t i = 0; i < whole.size; ++i) all.push_back(sample(whole, i));
  for (std::int64_t i = 0; i < train.size; ++i) parts.push_back(sample(train, i));
  for (std::int64_t i = 0; i < test.size; ++i) parts.push_back(sample(test, i));
  EXPECT_THAT(parts, ::testing::UnorderedElementsAreArray(all));
}

}  // namespace data_token_files_test
}  // namespace hetpipe
