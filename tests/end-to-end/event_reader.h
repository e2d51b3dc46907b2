// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

// A strict reader of TensorBoard's event files, made from the definitions of their framing and of
// protobuf's encoding, and sharing nothing with the writer.
namespace hetpipe::test {

struct ReadEvent {
  double wall_time = 0;
  std::int64_t step = 0;
  std::string file_version;
  bool starts = false;                  // a SessionLog of status START
  std::map<std::string, float> values;  // by tag
};

// Nothing where the file is not made of whole, sound records of known fields.
std::optional<std::vector<ReadEvent>> read_events(const std::string& bytes);

}  // namespace hetpipe::test
