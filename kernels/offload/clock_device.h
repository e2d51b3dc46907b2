// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "kernels/device.h"

namespace hetpipe {

// A device that is a clock: it computes nothing, and its work takes stated times, without a
// processor. What it is for: to measure, without a GPU, how well its host keeps one busy.
struct ClockSettings {
  // Of a layer that learns: its forward; its backward, half for each gradient. Others are one small
  // kernel.
  double layer_seconds = 1e-3;
  int launches = 100;            // kernels of either
  double launch_seconds = 3e-6;  // of the host, for each; likewise for other work, one kernel each
  double bus_bandwidth = 25e9;   // bytes/s; copies to and from the host share it
};

// "offload:layer=0.001,launches=100,launch=3e-6,bus=25e9", where what is left out is as above.
// Nothing if the name does not begin like this; UserError on a part that is none.
std::optional<ClockSettings> try_parse_clock(std::string_view device);

// Losses are 0, so trainings go on for ever. Its memory has addresses and no bytes.
std::unique_ptr<Device> make_clock_device(const ClockSettings& settings);

}  // namespace hetpipe
