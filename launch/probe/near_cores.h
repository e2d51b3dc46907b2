// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

namespace hetpipe {

// "0-3,8-11" of Linux, as numbers; empty if it is something else.
std::vector<int> cores_of_list(std::string_view list);

// The cores of a NUMA node: copies between their memory and a card of that node cross no link
// between sockets. Empty where the node is not known (-1), or the machine has no other one.
// `nodes`: as Linux lists them.
std::vector<int> near_cores(int numa_node,
                            const std::filesystem::path& nodes = "/sys/devices/system/node");

}  // namespace hetpipe
