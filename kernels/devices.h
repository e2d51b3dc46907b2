// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/module.h"
#include "kernels/device.h"

namespace hetpipe {

// The GPUs that this process sees and can use, queried again in each call; or why none.
struct VisibleGpus {
  std::vector<GpuInfo> gpus;
  std::string why_none;
  std::vector<std::string> left_out = {};  // why, of each that this build cannot use
};
VisibleGpus visible_gpus();

// One line per device type: "cpu: oneDNN 2.6.3", "reference: plain loops", "cuda: CUDA 13.0, ...",
// or why there is none.
std::vector<std::string> known_devices();

// "cpu" (oneDNN), "reference", "offload" (kernels/offload/) or "cuda"; "offload:..." for one that
// is a clock. UserError for a name that is not known; SystemError with the loader's or the driver's
// reason if CUDA is requested and not available. `threads` is what one kernel of a host device may
// use; primitives fix it when they are created.
std::unique_ptr<Device> make_device(const std::string& name, int threads,
                                    const GpuOptions& gpu = {});

// The names for make_device; "auto" is the choice of choose_device. "offload:..." is another
// (kernels/offload/clock_device.h).
std::vector<std::string> device_names();

// Whether make_device knows the name; UserError on settings of a clock that are none.
bool is_device(const std::string& name);

// Whether the host reaches the memory of such a device (Device::host_memory()).
bool host_reaches(const std::string& name);

// How such a device shares memory with other processes of this machine; null if it does not.
std::unique_ptr<PeerMemory> make_peer_memory(Device& device);

// "cuda" where there is a GPU; "cpu" elsewhere, and why: "not loadable: libcudart.so.13: ...".
struct DeviceChoice {
  std::string name;
  std::string why;
};
DeviceChoice choose_device();

}  // namespace hetpipe
