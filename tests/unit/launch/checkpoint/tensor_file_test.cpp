// SPDX-License-Identifier: Apache-2.0
#include "launch/checkpoint/tensor_file.h"

#include <gmock/gmock.h>
#include <sys/resource.h>

#include <csignal>
#include <cstring>

#include "base/file.h"
#include "base/json.h"
#include "runtime/store/checksum.h"
#include "tests/unit/data/scratch_folder.h"
#include "tests/unit/store/sample_checkpoint.h"

// Files for other programs, read back byte by byte as their descriptions say.
namespace hetpipe {
namespace tensor_file_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <class Number>
Number number_at(const std::string& bytes, std::size_t where) {
  Number value{};
  EXPECT_LE(where + sizeof value, bytes.size());
  std::memcpy(&value, bytes.data() + where, sizeof value);
  return value;
}

std::vector<float> floats(std::string_view bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::memcpy(&values[i], bytes.data() + i * sizeof(float), sizeof(float));
  }
  return values;
}

const std::vector<ExportTensor>& tensors() {
  static const std::vector<ExportTensor> all{{"conv1.weight", {2, 1, 1, 3}, {1, 2, 3, 4, 5, 6}},
                                             {"empty", {0, 4}, {}},
                                             {"scalar", {}, {-0.5f}},
                                             {"b.bias", {2}, {7, 8}}};
  return all;
}

std::vector<std::string> names_in(const std::vector<ExportTensor>& all) {
  std::vector<std::string> names;
  for (const ExportTensor& tensor : all) names.push_back(tensor.name);
  return names;
}

TEST(Safetensors, HeaderTellsWhereTheValuesAre) {
  const ScratchFolder folder;
  write_safetensors(folder / "a.safetensors", tensors(), {{"format", "pt"}});
  const std::string bytes = read_file(folder / "a.safetensors");
  const auto length = number_at<std::uint64_t>(bytes, 0);
  EXPECT_EQ(length % 8, 0u);
  const Json json = Json::parse(bytes.substr(8, length));
  const std::string_view data = std::string_view(bytes).substr(8 + length);
  EXPECT_EQ(json.at("__metadata__").at("format"), "pt");
  EXPECT_EQ(json.size(), 1 + tensors().size());
  std::uint64_t end = 0;
  for (const ExportTensor& tensor : tensors()) {
    const Json& entry = json.at(tensor.name);
    EXPECT_EQ(entry.at("dtype"), "F32");
    EXPECT_EQ(entry.at("shape"), Json(tensor.shape));
    const auto start = entry.at("data_offsets").at(0).get<std::uint64_t>();
    EXPECT_EQ(start, end);  // neither gaps nor overlaps
    end = entry.at("data_offsets").at(1).get<std::uint64_t>();
    EXPECT_EQ(floats(data.substr(start, end - start)), tensor.values);
  }
  EXPECT_EQ(end, data.size());
}

// The value that the zip64 extra field of a header holds in place `index`.
std::uint64_t zip64_value(const std::string& extra, std::size_t index) {
  EXPECT_EQ(number_at<std::uint16_t>(extra, 0), 1);
  EXPECT_EQ(number_at<std::uint16_t>(extra, 2), extra.size() - 4);
  return number_at<std::uint64_t>(extra, 4 + 8 * index);
}

struct Member {
  std::string name;
  std::uint32_t crc = 0;
  std::uint64_t bytes = 0;
  std::uint64_t offset = 0;  // of its local header
};

// By the end record and the central directory, as unzip programs read.
std::vector<Member> central_directory(const std::string& zip, std::uint64_t before = 0) {
  const std::size_t end = zip.size() - 22;
  EXPECT_EQ(zip.substr(end, 4), "PK\x05\x06");
  std::uint64_t count = number_at<std::uint16_t>(zip, end + 10);
  std::uint64_t at = number_at<std::uint32_t>(zip, end + 16);
  if (at == 0xffffffffu || count == 0xffffu) {
    const std::size_t locator = end - 20;
    EXPECT_EQ(zip.substr(locator, 4), "PK\x06\x07");
    const auto record = number_at<std::uint64_t>(zip, locator + 8) - before;
    EXPECT_EQ(zip.substr(record, 4), std::string("PK\x06\x06"));
    EXPECT_EQ(number_at<std::uint64_t>(zip, record + 4), locator - record - 12);
    count = number_at<std::uint64_t>(zip, record + 32);
    at = number_at<std::uint64_t>(zip, record + 48);
  }
  at -= before;
  std::vector<Member> members;
  for (std::uint64_t i = 0; i < count; ++i) {
    EXPECT_EQ(zip.substr(at, 4), "PK\x01\x02");
    const auto name_bytes = number_at<std::uint16_t>(zip, at + 28);
    const auto extra_bytes = number_at<std::uint16_t>(zip, at + 30);
    Member member{zip.substr(at + 46, name_bytes), number_at<std::uint32_t>(zip, at + 16),
                  number_at<std::uint32_t>(zip, at + 24), number_at<std::uint32_t>(zip, at + 42)};
    const std::string extra = zip.substr(at + 46 + name_bytes, extra_bytes);
    const bool large = member.bytes == 0xffffffffu;
    if (large) member.bytes = zip64_value(extra, 1);
    if (member.offset == 0xffffffffu) member.offset = zip64_value(extra, large ? 2 : 0);
    members.push_back(member);
    at += 46 + name_bytes + extra_bytes;
  }
  return members;
}

TEST(Npz, MembersAreNpyFilesWithTheirChecksums) {
  const ScratchFolder folder;
  write_npz(folder / "a.npz", tensors());
  const std::string zip = read_file(folder / "a.npz");
  const std::vector<std::string> shapes{"(2, 1, 1, 3)", "(0, 4)", "()", "(2,)"};
  const std::vector<Member> members = central_directory(zip);
  ASSERT_EQ(members.size(), tensors().size());
  for (std::size_t i = 0; i < members.size(); ++i) {
    const std::size_t local = members[i].offset;
    EXPECT_EQ(zip.substr(local, 4), "PK\x03\x04");
    EXPECT_EQ(members[i].name, tensors()[i].name + ".npy");
    EXPECT_EQ(number_at<std::uint32_t>(zip, local + 14), members[i].crc);
    EXPECT_EQ(number_at<std::uint32_t>(zip, local + 22), members[i].bytes);
    const std::size_t data = local + 30 + number_at<std::uint16_t>(zip, local + 26) +
                             number_at<std::uint16_t>(zip, local + 28);
    const std::string npy = zip.substr(data, members[i].bytes);
    EXPECT_EQ(crc32_of(npy), members[i].crc);
    EXPECT_EQ(npy.substr(0, 8), std::string("\x93NUMPY\x01\x00", 8));
    const auto header = number_at<std::uint16_t>(npy, 8);
    EXPECT_EQ((10 + header) % 64, 0);
    EXPECT_EQ(npy[9 + header], '\n');
    EXPECT_THAT(npy.substr(10, header), HasSubstr("{'descr': '<f4', 'fortran_order': False, "
                                                  "'shape': " +
                                                  shapes[i] + ", }"));
    EXPECT_EQ(floats(std::string_view(npy).substr(10 + header)), tensors()[i].values);
  }
}

TEST(Npz, NothingAtAllIsAFileToo) {
  const ScratchFolder folder;
  write_npz(folder / "a.npz", {});
  EXPECT_TRUE(central_directory(read_file(folder / "a.npz")).empty());
}

// Headers alone: the data of the first member would have 5 GB.
TEST(ZipHeaders, LargeMembersNeedZip64) {
  constexpr std::uint64_t kLarge = 5'000'000'000;
  ZipHeaders zip;
  const std::string first = zip.member("large", 1, kLarge);
  const std::string second = zip.member("small", 2, 3);
  const std::string third = zip.member("edge", 3, 0xffffffff);
  EXPECT_EQ(number_at<std::uint32_t>(first, 22), 0xffffffffu);
  EXPECT_EQ(zip64_value(first.substr(35), 0), kLarge);
  EXPECT_EQ(zip64_value(first.substr(35), 1), kLarge);
  EXPECT_EQ(second.size(), 35u);  // no extra field
  const std::uint64_t all = first.size() + kLarge + second.size() + 3 + third.size() + 0xffffffffu;
  const std::vector<Member> members = central_directory(zip.end(), all);
  ASSERT_EQ(members.size(), 3u);
  EXPECT_EQ(members[0].bytes, kLarge);
  EXPECT_EQ(members[0].offset, 0u);
  EXPECT_EQ(members[1].bytes, 3u);
  EXPECT_EQ(members[1].offset, first.size() + kLarge);
  EXPECT_EQ(members[2].bytes, 0xffffffffu);
  EXPECT_EQ(members[2].offset, first.size() + kLarge + second.size() + 3);
}

TEST(ZipHeaders, ManyMembersNeedZip64) {
  ZipHeaders zip;
  std::uint64_t all = 0;
  for (int i = 0; i < 70000; ++i) all += zip.member("m" + std::to_string(i), 1, 0).size();
  EXPECT_EQ(central_directory(zip.end(), all).size(), 70000u);
}

TEST(TorchTensors, HaveTheNamesAndLayoutsOfAStateDict) {
  Checkpoint checkpoint = sample_checkpoint();
  checkpoint.parameters = {{"block1/bn/scale", {2}, {1, 2}, ""},
                           {"block1/bn/shift", {2}, {3, 4}, ""},
                           {"conv1/weight", {1, 1, 1, 2}, {5, 6}, "OIHW"},
                           {"fc/weight", {2, 3}, {1, 2, 3, 4, 5, 6}, "in,out"}};
  const std::vector<ExportTensor> all = torch_tensors(checkpoint, ExportSlots::no);
  EXPECT_THAT(names_in(all),
              ElementsAre("block1.bn.weight", "block1.bn.bias", "conv1.weight", "fc.weight",
                          "bn1.running_mean", "bn1.running_var", "bn1.num_batches_tracked"));
  EXPECT_EQ(all[2].shape, (std::vector<std::int64_t>{1, 1, 1, 2}));
  EXPECT_EQ(all[3].shape, (std::vector<std::int64_t>{3, 2}));  // (out, in)
  EXPECT_EQ(all[3].values, (std::vector<float>{1, 4, 2, 5, 3, 6}));
}

TEST(TorchTensors, SlotsAreLaidOutAsTheirParameters) {
  const Checkpoint checkpoint = sample_checkpoint();
  const std::vector<ExportTensor> all = torch_tensors(checkpoint, ExportSlots::yes);
  ASSERT_EQ(all.size(), 10u);
  EXPECT_EQ(all[7].name, "optimizer.second_moment.fc.weight");
  EXPECT_EQ(all[7].shape, (std::vector<std::int64_t>{3, 7}));
  EXPECT_EQ(all[9].name, "optimizer.velocity.conv1.weight");
}

TEST(RawTensors, AreAsStored) {
  const Checkpoint checkpoint = sample_checkpoint();
  const std::vector<ExportTensor> all = raw_tensors(checkpoint, ExportSlots::yes);
  ASSERT_EQ(all.size(), 9u);
  EXPECT_EQ(all[3], (ExportTensor{"model/fc/weight", {7, 3}, checkpoint.parameters[3].values}));
  EXPECT_EQ(all[6].name, "optimizer/second_moment/fc/weight");
}

TEST(TensorFiles, NoSpaceLeavesNoFile) {
  const ScratchFolder folder;
  const std::vector<ExportTensor> large{{"a", {100'000}, std::vector<float>(100'000)}};
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);  // the write fails instead
  rlimit small = before;
  small.rlim_cur = 100'000;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  EXPECT_THAT(error_of<SystemError>([&] { write_npz(folder / "a.npz", large); }),
              HasSubstr("a.npz"));
  EXPECT_THAT(
      error_of<SystemError>([&] { write_safetensors(folder / "a.safetensors", large, {}); }),
      HasSubstr("a.safetensors"));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace tensor_file_test
}  // namespace hetpipe
