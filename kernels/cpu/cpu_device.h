// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "kernels/device.h"

// This machine's processor: oneDNN for convolution, linear and batch norm; own loops for
// the rest. Activations are (N, H, W, C) in memory too. Bits are the same from run to run at one
// thread count.
namespace hetpipe {

std::unique_ptr<Device> make_cpu_device(int threads);

std::string onednn_version();  // "oneDNN 2.6.3", of the library that is loaded

}  // namespace hetpipe
