// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "partitioner/cluster/cluster.h"

// What the tables of a plan have in common.
namespace hetpipe {

// All of a few; of many the first and the last, and how many: "n0:0 ... n3:1 (8)".
std::string abridged(const std::vector<std::string>& names, std::size_t most,
                     const std::string& between = " ");

std::string device_names(const std::vector<DeviceName>& devices);

}  // namespace hetpipe
