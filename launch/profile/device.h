// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/precision.h"
#include "kernels/device.h"

namespace hetpipe {

// The device that `hetpipe profile` measures, and what its times depend on.
struct ProfiledDevice {
  std::unique_ptr<Device> device;
  std::string kind;          // its name in the profile: a GPU's is the one of hetpipe probe
  std::string hardware;      // "NVIDIA H200, 143771 MiB"; of a CPU: "AMD EPYC 9B45"
  std::string driver;        // empty: none, or not known
  std::string libraries;     // that compute
  double memory = 0;         // bytes that measuring may take
  std::uint64_t module = 0;  // hash of the CUDA module; 0: not needed
};

struct ProfiledDeviceOptions {
  std::string device;  // of make_device
  int threads = 1;
  int gpu = 0;
  std::optional<Precision> precision;  // absent: the device's usual one
};

// SystemError if CUDA is requested and not available.
ProfiledDevice open_profiled_device(const ProfiledDeviceOptions& options);

}  // namespace hetpipe
