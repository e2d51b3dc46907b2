// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/store/hdf5.h"

// Private to this folder: one dataset of an HDF5 file as rows, one for each sample.
namespace hetpipe {

class Hdf5Array {
 public:
  // `name`: with its groups. UserError when it is missing or no dataset of numbers with samples.
  Hdf5Array(const std::string& path, const hdf5::Id& file, const std::string& name);

  std::int64_t rows() const { return static_cast<std::int64_t>(shape_[0]); }
  std::vector<std::int64_t> row_shape() const;
  std::string shape_text() const { return hdf5::shape_text(shape_); }
  const std::string& name() const { return name_; }
  bool is_integer() const { return integer_; }
  bool is_bytes() const { return bytes_; }  // uint8
  // "NHWC", "NCHW": its attribute `layout`; empty: it has none.
  std::string layout() const;

  // UserError naming the first number that is not finite; integers() of floating-point numbers is
  // refused.
  std::vector<float> floats(hdf5::Rows rows) const;
  std::vector<std::uint8_t> bytes(hdf5::Rows rows) const;
  std::vector<std::int64_t> integers(hdf5::Rows rows) const;

  // Looks up where every chunk lies.
  void count_chunks() const;
  [[noreturn]] void refuse(const std::string& what) const;  // "... Write the file again."

 private:
  template <class Value>
  std::vector<Value> read(hdf5::Rows rows, hid_t type) const;
  std::int64_t row_elements() const;

  std::string path_, name_;
  hdf5::Id dataset_;
  std::vector<hsize_t> shape_;
  bool integer_ = false;
  bool bytes_ = false;
};

}  // namespace hetpipe
