// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "runtime/store/hdf5.h"

// Names as a dataset of HDF5 strings of one length, padded with zeros. Private to this folder.
namespace hetpipe::hdf5 {

inline constexpr const char* kClassNames = "class_names";

// Without times, so that the same names make the same bytes. At least one name.
void write_name_list(hid_t place, const char* name, std::span<const std::string> names,
                     const Doing& doing);
std::size_t bytes_of_name_list(std::span<const std::string> names);
// Empty where `place` has none, or one of another form.
std::vector<std::string> read_name_list(hid_t place, const char* name, const Doing& doing);

}  // namespace hetpipe::hdf5
