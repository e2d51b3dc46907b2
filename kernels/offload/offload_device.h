// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "kernels/device.h"
#include "kernels/peer_memory.h"

namespace hetpipe {

// The CPU device as if it were an accelerator, to find code that would fail on one:
//   * its memory is its own: the host that reads or writes it dies of a segmentation fault;
//   * its streams run beside the host, each in a thread, later than they are asked: who reads
//     results without waiting reads what stood there before;
//   * activations may be bf16 or fp16: rounded after every layer, as a GPU's are.
// Slow; computes what the CPU device computes, in fp32 bit for bit. UserError for tf32.
std::unique_ptr<Device> make_offload_device(int threads, Precision precision);
// Of such a device: what it shares is a file without a name, which other processes find by its
// number.
std::unique_ptr<PeerMemory> make_offload_peer_memory(Device& device);

class FarMemory;

// A layer of the CPU device, enqueued on a ThreadStream: arguments are copied, as their spans end
// with the call; activations of two bytes become floats for it, and its results are rounded.
std::unique_ptr<LayerKernel> make_offload_kernel(std::shared_ptr<LayerKernel> kernel,
                                                 const LayerSpec& spec,
                                                 const std::vector<Shape>& inputs, ElementType type,
                                                 const FarMemory& memory, Stream& host);

}  // namespace hetpipe
