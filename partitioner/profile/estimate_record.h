// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "partitioner/profile/profile.h"

// How far estimates were off where measurements stand beside them, which is what to expect of the
// next one. The numbers are those of docs/devices-and-profiles.md and docs/measured.md; the tests
// EstimateAccuracy and EstimatedRuns compute them again.
namespace hetpipe {

struct EstimateRecord {
  double mean = 0;  // |estimate / measurement - 1|
  double worst = 0;
  int compared = 0;  // measurements
  std::string_view of;
};

// Scaled from another kind's measurement: OPT-350M on groups of two and of eight GPUs.
inline constexpr EstimateRecord kRelativeRecord{0.43, 0.73, 4, "groups of GPUs"};
// From flops and bytes, one forward and backward: convolutional networks on a V100.
inline constexpr EstimateRecord kAbsoluteRecord{0.48, 1.11, 3, "convolutional networks"};
// From flops and bytes under megatron-deepspeed, whole iterations: GPTs on A100s.
inline constexpr EstimateRecord kMegatronRecord{0.065, 0.26, 40, "iterations of GPTs on A100s"};

// Of an estimated measurement that a plan of `runtime` stands on.
const EstimateRecord& record_of(const Measurement& estimate, std::string_view runtime);

// "expected error 47 %, the mean of 3 convolutional networks; the worst 111 %"
std::string to_string(const EstimateRecord& record);

}  // namespace hetpipe
