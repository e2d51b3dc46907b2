// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "tests/end-to-end/training.h"

// Small trainings that between them make a device do everything that a run asks of it: every kind
// of message, clipping, versions of weights, recomputation, halves of backwards. To be run on one
// device and compared with another.
namespace hetpipe {

struct DeviceCase {
  const char* name;
  Training training;  // its device is the caller's
};
inline std::ostream& operator<<(std::ostream& out, const DeviceCase& c) { return out << c.name; }

std::vector<DeviceCase> device_cases();
std::string name_of_case(const testing::TestParamInfo<DeviceCase>& of);

}  // namespace hetpipe
