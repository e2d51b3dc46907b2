// SPDX-License-Identifier: Apache-2.0
#include "runtime/store/name_list.h"

#include <algorithm>

namespace hetpipe::hdf5 {
namespace {

std::size_t longest(std::span<const std::string> names) {
  std::size_t length = 1;
  for (const std::string& one : names) length = std::max(length, one.size());
  return length;
}

}  // namespace

std::size_t bytes_of_name_list(std::span<const std::string> names) {
  return names.size() * longest(names);
}

void write_name_list(hid_t place, const char* name, std::span<const std::string> names,
                     const Doing& doing) {
  const std::size_t length = longest(names);
  const Id type = own(H5Tcopy(H5T_C_S1), doing);
  check(H5Tset_size(type.get(), length), doing);
  check(H5Tset_strpad(type.get(), H5T_STR_NULLPAD), doing);
  check(H5Tset_cset(type.get(), H5T_CSET_UTF8), doing);
  std::string text;
  for (const std::string& one : names) {
    text += one;
    text.append(length - one.size(), '\0');
  }
  const hsize_t count = names.size();
  const Id space = own(H5Screate_simple(1, &count, nullptr), doing);
  const Id creation = own(H5Pcreate(H5P_DATASET_CREATE), doing);
  check(H5Pset_obj_track_times(creation.get(), false), doing);
  const Id dataset = own(
      H5Dcreate2(place, name, type.get(), space.get(), H5P_DEFAULT, creation.get(), H5P_DEFAULT),
      doing);
  check(H5Dwrite(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, text.data()), doing);
}

std::vector<std::string> read_name_list(hid_t place, const char* name, const Doing& doing) {
  if (!has_link(place, name)) return {};
  const Id dataset = own(H5Dopen2(place, name, H5P_DEFAULT), doing);
  const Id type = own(H5Dget_type(dataset.get()), doing);
  const std::vector<hsize_t> shape = shape_of(dataset.get(), doing);
  const bool fixed =
      H5Tget_class(type.get()) == H5T_STRING && check(H5Tis_variable_str(type.get()), doing) == 0;
  const std::size_t length = H5Tget_size(type.get());
  if (!fixed || shape.size() != 1 || length == 0 || shape[0] > (1U << 20) || length > 4096) {
    return {};  // somebody else's, of another form
  }
  std::string text(shape[0] * length, '\0');
  check(H5Dread(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, text.data()), doing);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < shape[0]; ++i) {
    const std::string padded = text.substr(i * length, length);
    names.push_back(padded.substr(0, padded.find('\0')));
  }
  return names;
}

}  // namespace hetpipe::hdf5
