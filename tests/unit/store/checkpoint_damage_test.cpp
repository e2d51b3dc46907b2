// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <hdf5.h>

#include <functional>

#include "base/error.h"
#include "base/file.h"
#include "base/random.h"
#include "runtime/store/checkpoint.h"
#include "tests/unit/data/scratch_folder.h"
#include "tests/unit/store/sample_checkpoint.h"

// HDF5 1.10 loses a buffer whenever the checksum of an object's header is wrong. A program of its
// own, so that leaks are looked for in all other tests of the store.
extern "C" const char* __lsan_default_suppressions() { return "leak:libhdf5"; }

// A damaged checkpoint is refused, and HDF5 survives it.
namespace hetpipe {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class CheckpointDamage : public ::testing::Test {
 protected:
  CheckpointDamage() : path_(folder_ / "a.h5"), checkpoint_(sample_checkpoint()) {
    write_checkpoint(path_, checkpoint_);
    bytes_ = read_file(path_);
  }

  void expect_refused(const std::string& bytes) {
    const std::filesystem::path path = folder_ / "damaged.h5";
    write_plain(path, bytes);
    EXPECT_THAT(error_of<UserError>([&] { read_checkpoint(path); }),
                AllOf(HasSubstr(path.string()), HasSubstr("another checkpoint")));
  }

  // What is said after `change` was made to the file through HDF5 itself.
  std::string error_after(const std::function<void(hid_t)>& change) {
    const hid_t file = H5Fopen(path_.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    EXPECT_GE(file, 0);
    change(file);
    EXPECT_GE(H5Fclose(file), 0);
    return error_of<UserError>([&] { read_checkpoint(path_); });
  }

  ScratchFolder folder_;
  std::filesystem::path path_;
  Checkpoint checkpoint_;
  std::string bytes_;
};

TEST_F(CheckpointDamage, CutShortAnywhere) {
  for (std::size_t length = 0; length < bytes_.size();
       length += length < 64 ? 1 : 1 + bytes_.size() / 97) {
    SCOPED_TRACE(length);
    expect_refused(bytes_.substr(0, length));
  }
  expect_refused(bytes_.substr(0, bytes_.size() - 1));
}

TEST_F(CheckpointDamage, SomethingAppended) { expect_refused(bytes_ + "x"); }

TEST_F(CheckpointDamage, FlippedBitAnywhere) {
  for (std::uint64_t i = 0; i < 300; ++i) {
    const std::uint64_t key = random_key({5, i});
    const std::size_t where = key % bytes_.size();
    SCOPED_TRACE(where);
    std::string bytes = bytes_;
    bytes[where] = static_cast<char>(bytes[where] ^ (1 << (key >> 61)));
    expect_refused(bytes);
  }
}

TEST_F(CheckpointDamage, FlippedBitInValuesNamesTheirDataset) {
  for (const NamedTensor& tensor : {checkpoint_.parameters[2], checkpoint_.statistics[0]}) {
    const std::string_view values(reinterpret_cast<const char*>(tensor.values.data()),
                                  tensor.values.size() * sizeof(float));
    const std::size_t start = bytes_.find(values);
    ASSERT_NE(start, std::string::npos);
    std::string bytes = bytes_;
    bytes[start + values.size() - 1] ^= 1;
    write_plain(path_, bytes);
    EXPECT_THAT(error_of<UserError>([&] { read_checkpoint(path_); }),
                HasSubstr("dataset model/" + tensor.name + " has checksum"));
  }
}

TEST_F(CheckpointDamage, MissingDatasetIsNoticed) {
  EXPECT_THAT(error_after([](hid_t file) { H5Ldelete(file, "model/conv1/bias", H5P_DEFAULT); }),
              HasSubstr("dataset model/conv1/bias is missing"));
}

TEST_F(CheckpointDamage, RenamedDatasetIsNoticed) {
  EXPECT_THAT(
      error_after([](hid_t file) {
        H5Lmove(file, "model/conv1/bias", file, "model/conv1/bios", H5P_DEFAULT, H5P_DEFAULT);
      }),
      AllOf(HasSubstr("model/conv1/bias is missing"), HasSubstr("model/conv1/bios was added")));
}

TEST_F(CheckpointDamage, ChangedValueNamesItsDataset) {
  EXPECT_THAT(error_after([](hid_t file) {
                const hid_t data = H5Dopen2(file, "optimizer/velocity/conv1/bias", H5P_DEFAULT);
                const std::vector<float> zeros(6);
                H5Dwrite(data, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, zeros.data());
                H5Dclose(data);
              }),
              HasSubstr("dataset optimizer/velocity/conv1/bias has checksum"));
}

void set_integer(hid_t file, const char* name, long long value) {
  const hid_t attribute = H5Aopen(file, name, H5P_DEFAULT);
  H5Awrite(attribute, H5T_NATIVE_LLONG, &value);
  H5Aclose(attribute);
}

TEST_F(CheckpointDamage, ChangedAttributeIsNoticed) {
  EXPECT_THAT(error_after([](hid_t file) { set_integer(file, "label", 11); }),
              HasSubstr("is not the file that was written"));
}

TEST_F(CheckpointDamage, IncompleteIsRefused) {
  EXPECT_THAT(error_after([](hid_t file) { H5Adelete(file, "complete"); }),
              HasSubstr("not written to its end"));
}

TEST_F(CheckpointDamage, OtherVersionIsRefused) {
  EXPECT_THAT(error_after([](hid_t file) { set_integer(file, "version", 2); }),
              HasSubstr("has version 2 (this build reads version 1)"));
}

TEST_F(CheckpointDamage, OtherFilesAreRefused) {
  expect_refused("[run]\nmodel = 1\n");
  EXPECT_THAT(error_of<UserError>([&] { read_checkpoint(folder_ / "none.h5"); }),
              HasSubstr("does not exist"));
}

}  // namespace
}  // namespace hetpipe
