// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <hdf5.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/unit/data/scratch_folder.h"

namespace hetpipe {

// Files that are made with HDF5 alone, as any other program would.
class WrittenHdf5 : public ::testing::Test {
 protected:
  using Shape = std::vector<hsize_t>;

  // Without values it reads as zeros, and takes no room.
  template <class Value>
  void add(const std::string& file, const std::string& name, hid_t type, const Shape& shape,
           const std::vector<Value>& values) {
    const std::string path = (folder_ / file).string();
    const hid_t f = std::filesystem::exists(path)
                        ? H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT)
                        : H5Fcreate(path.c_str(), H5F_ACC_EXCL, H5P_DEFAULT, H5P_DEFAULT);
    const hid_t parents = H5Pcreate(H5P_LINK_CREATE);
    H5Pset_create_intermediate_group(parents, 1);
    const hid_t space = H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr);
    const hid_t data = H5Dcreate2(f, name.c_str(), type, space, parents, H5P_DEFAULT, H5P_DEFAULT);
    ASSERT_GE(data, 0);
    if (!values.empty()) {
      ASSERT_GE(H5Dwrite(data, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0);
    }
    H5Dclose(data);
    H5Sclose(space);
    H5Pclose(parents);
    ASSERT_GE(H5Fclose(f), 0);
  }

  // Of a dataset (N, C).
  void write_row(const std::string& file, const std::string& name, hsize_t row,
                 const std::vector<std::uint8_t>& values) {
    const hid_t f = H5Fopen((folder_ / file).c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    const hid_t data = H5Dopen2(f, name.c_str(), H5P_DEFAULT);
    const hid_t space = H5Dget_space(data);
    const hsize_t first[] = {row, 0};
    const hsize_t count[] = {1, values.size()};
    H5Sselect_hyperslab(space, H5S_SELECT_SET, first, nullptr, count, nullptr);
    const hid_t memory = H5Screate_simple(2, count, nullptr);
    ASSERT_GE(H5Dwrite(data, H5T_NATIVE_UINT8, memory, space, H5P_DEFAULT, values.data()), 0);
    H5Sclose(memory);
    H5Sclose(space);
    H5Dclose(data);
    ASSERT_GE(H5Fclose(f), 0);
  }

  ScratchFolder folder_;
};

}  // namespace hetpipe
