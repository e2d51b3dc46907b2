// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace hetpipe {

// What the classes of a data set are called, in the order of their labels: the dataset class_names
// of an HDF5 file, as hetpipe data import writes it. Empty where the data set has none.
std::vector<std::string> class_names_of(const std::string& spec);

}  // namespace hetpipe
