// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

// Records of an event file, as TensorBoard reads them. A record is the length of its data (8 bytes,
// little endian), the masked CRC-32C of these 8 bytes (4), the data, the masked CRC-32C of the data
// (4). Masked: rotated right by 15 bits, plus 0xa282ead8. The data are a protobuf message Event:
//
//   1 double wall_time   2 int64 step   3 string file_version   5 Summary summary   7 SessionLog
//   Summary:       1 repeated Value
//   Value:         1 string tag   2 float simple_value
//   SessionLog:    1 enum status (1: start)
namespace hetpipe {

struct Scalar {
  std::string tag;
  double value = 0;
};

// `time`: seconds since 1970.
std::string version_record(double time);  // the first of a file
// What other files hold of this step and later ones is void: the run was resumed before it.
std::string start_record(double time, std::int64_t step);
std::string scalars_record(double time, std::int64_t step, const std::vector<Scalar>& scalars);

}  // namespace hetpipe
