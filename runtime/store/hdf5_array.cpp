// SPDX-License-Identifier: Apache-2.0
#include "runtime/store/hdf5_array.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/index.h"
#include "base/sample_format.h"
#include "base/text.h"

namespace hetpipe {
namespace {

constexpr hsize_t kMostRowValues = hsize_t{1} << 40;  // of a dataset; more is no sound file

}  // namespace

Hdf5Array::Hdf5Array(const std::string& path, const hdf5::Id& file, const std::string& name)
    : path_(path), name_(name) {
  const hdf5::Doing doing{path, "reading dataset " + name};
  dataset_ = hdf5::own(H5Oopen(file.get(), name.c_str(), H5P_DEFAULT), doing);
  if (H5Iget_type(dataset_.get()) != H5I_DATASET) refuse("is a group (a dataset is needed)");
  const hdf5::Id type = hdf5::own(H5Dget_type(dataset_.get()), doing);
  const H5T_class_t kind = H5Tget_class(type.get());
  integer_ = kind == H5T_INTEGER;
  bytes_ = integer_ && H5Tget_size(type.get()) == 1 && H5Tget_sign(type.get()) == H5T_SGN_NONE;
  if (!integer_ && kind != H5T_FLOAT) {
    refuse(
        "holds neither integers nor floating-point numbers (NumPy's bool is stored as another "
        "type: convert it with astype)");
  }
  shape_ = hdf5::shape_of(dataset_.get(), doing);
  hsize_t values = 1;
  bool sound = !shape_.empty();
  for (const hsize_t extent : shape_) {
    sound = sound && extent > 0 && extent <= kMostRowValues / values;
    if (sound) values *= extent;
  }
  if (!sound) refuse("has shape " + shape_text() + " (a row for each sample is needed)");
}

void Hdf5Array::refuse(const std::string& what) const {
  throw UserError(path_, "dataset " + name_ + " " + what + ". Write the file again.");
}

std::vector<std::int64_t> Hdf5Array::row_shape() const {
  return {shape_.begin() + 1, shape_.end()};
}

std::int64_t Hdf5Array::row_elements() const { return elements_of(row_shape()); }

std::string Hdf5Array::layout() const {
  const hdf5::Doing doing{path_, "reading dataset " + name_};
  if (!hdf5::has_attribute(dataset_.get(), "layout", doing)) return "";
  const std::string layout = hdf5::read_text(dataset_.get(), "layout", doing);
  if (layout == "NHWC" || layout == "NCHW") return layout;
  throw UserError(path_, "dataset " + name_ + " has layout '" + layout.substr(0, 20) +
                             "' (NHWC or NCHW is needed). Correct the attribute.");
}

template <class Value>
std::vector<Value> Hdf5Array::read(hdf5::Rows rows, hid_t type) const {
  std::vector<Value> values(at(rows.count * row_elements()));
  hdf5::read_rows(dataset_.get(), rows, type, values.data(), {path_, "reading dataset " + name_});
  return values;
}

std::vector<float> Hdf5Array::floats(hdf5::Rows rows) const {
  std::vector<float> values = read<float>(rows, H5T_NATIVE_FLOAT);
  const auto wrong =
      std::find_if(values.begin(), values.end(), [](float value) { return !std::isfinite(value); });
  if (wrong != values.end()) {
    refuse(format("holds %g in sample %lld (training cannot use it)", static_cast<double>(*wrong),
                  static_cast<long long>(rows.first + (wrong - values.begin()) / row_elements())));
  }
  return values;
}

std::vector<std::uint8_t> Hdf5Array::bytes(hdf5::Rows rows) const {
  return read<std::uint8_t>(rows, H5T_NATIVE_UINT8);
}

std::vector<std::int64_t> Hdf5Array::integers(hdf5::Rows rows) const {
  if (integer_) return read<std::int64_t>(rows, H5T_NATIVE_INT64);
  refuse("holds floating-point numbers (integers are needed)");
}

void Hdf5Array::count_chunks() const {
  hdf5::look_up_chunks(dataset_.get(), {path_, "reading dataset " + name_});
}

}  // namespace hetpipe
