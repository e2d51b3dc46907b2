// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

// Names of device types, which schedulers, drivers and people write in different ways.
namespace hetpipe {

// Letters and digits alone, in lower case: "titan-v", "titanv", "TITAN_V" and "TITAN V" are
// "titanv".
std::string normal_device_type(std::string_view name);

// Whether two names mean one device type, however each is written. Does not allocate: planners
// look measurements up by it.
bool same_device_type(std::string_view a, std::string_view b);

}  // namespace hetpipe
