// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <memory>
#include <optional>
#include <string>

#include "kernels/cuda/module.h"
#include "kernels/cuda_loader.h"
#include "kernels/devices.h"

// What tests of the CUDA device share. The same sources make programs for the module that is
// shipped, on a machine with a GPU, and for the one whose CUDA is a double, anywhere
// (tests/cuda/double/).
namespace hetpipe::test {

// The last GPU: where there are several it is not the one that threads use unasked.
inline GpuInfo last_gpu() { return load_cuda().module->gpus().back(); }

// Where the plans of all processes of a run are kept, so that each is searched for once: the folder
// of tests/gpu/run, which is empty at first.
inline std::string plans_of_this_run() {
  const char* const folder = std::getenv("HETPIPE_TEST_PLANS");
  return folder == nullptr ? std::string() : std::string(folder) + "/plans.jsonl";
}

// Bytes that a plan may use, for a test with little; 0: the usual.
inline std::size_t workspace_of_plans() {
  const char* const bytes = std::getenv("HETPIPE_TEST_WORKSPACE");
  return bytes == nullptr ? 0 : static_cast<std::size_t>(std::strtoull(bytes, nullptr, 10));
}

// Null where the card does not know the precision.
inline std::unique_ptr<Device> cuda_device(Precision precision) {
  const GpuInfo gpu = last_gpu();
  const bool since_ampere = precision == Precision::bf16 || precision == Precision::tf32;
  if (since_ampere && gpu.major < 8) return nullptr;
  return make_device("cuda", 1,
                     {.index = gpu.index,
                      .precision = precision,
                      .plan_cache = plans_of_this_run(),
                      .workspace = workspace_of_plans()});
}

}  // namespace hetpipe::test
