// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace hetpipe {

// What the classes of an HDF5 file are called, in the order of their labels: its dataset
// class_names, as hetpipe data import writes it. Empty where it has none, and of other data sets.
std::vector<std::string> class_names_of(const std::string& spec);

}  // namespace hetpipe
