// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda/ptx/attach.h"

#include <cstdlib>

#include "kernels/cuda/own/simt.h"
#include "tests/cuda/ptx/kernels.h"
#include "tests/cuda/ptx/symbols.h"

namespace hetpipe::cuda::ptx {
namespace {

FindAllocation find_allocation = nullptr;

// Read at the first launch, in the one thread at a time that launches.
Kernels& kernels() {
  static Kernels all = [] {
    Kernels read(find_allocation);
    for (const auto& module : read_modules(std::getenv("HETPIPE_PTX"))) read.add(module);
    if (const char* const seen = std::getenv("HETPIPE_PTX_SEEN")) read.note_in(seen);
    return read;
  }();
  return all;
}

Extent extent_of(dim3 d) { return {d.x, d.y, d.z}; }

void run(const KernelCall& call) {
  std::vector<std::span<const std::byte>> arguments;
  for (const Argument& argument : call.arguments) {
    arguments.emplace_back(static_cast<const std::byte*>(argument.place), argument.bytes);
  }
  kernels().launch(symbol_at(call.kernel), {extent_of(call.blocks), extent_of(call.threads)},
                   arguments,
                   simt_order() == SimtOrder::ascending ? Order::ascending : Order::descending);
}

}  // namespace

bool attach(FindAllocation find) {
  if (std::getenv("HETPIPE_PTX") == nullptr) return false;
  find_allocation = find;
  set_kernel_runner(&run);
  return true;
}

}  // namespace hetpipe::cuda::ptx
