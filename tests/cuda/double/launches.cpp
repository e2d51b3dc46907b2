// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>

#include <cstdio>
#include <exception>
#include <string>

#include "base/precision.h"
#include "kernels/cuda_loader.h"
#include "kernels/devices.h"
#include "launch/check/steps.h"
#include "runtime/model/graph/import.h"
#include "tests/cuda/double/double.h"

// cuda_double_launches MODEL [PRECISION]: what the CUDA device asks a GPU to do in one step of
// training an exported model's minibatch (check.safetensors in its folder), all layers in one
// stage, SGD with momentum. To be compared with what a profiler counts of PyTorch's step.
namespace hetpipe {
namespace {

using Count = std::int64_t (*)(int);

Count counter() {
  void* const module = dlopen(HETPIPE_CUDA_MODULE, RTLD_NOW | RTLD_NOLOAD);
  return reinterpret_cast<Count>(dlsym(module, "hetpipe_double_count"));
}

void print_launches(const std::string& folder, const std::string& precision) {
  use_cuda_module(HETPIPE_CUDA_MODULE);
  const auto device =
      make_device("cuda", 1, {.precision = precision_named(precision), .plan_cache = {}});
  const Model model = import_model(folder, {});
  const CheckedBatch batch =
      read_batch(folder + "/check.safetensors", model, exported_samples(folder, {}));
  CheckedSteps steps(model, {model.layer_count()}, *device,
                     {.name = "sgd-momentum", .learning_rate = 0.01, .momentum = 0.9});
  steps.step(batch);  // layers' tables come to the device
  const Count count = counter();
  std::int64_t before[cuda::stand_in::kCounted], all = 0;
  for (int i = 0; i < cuda::stand_in::kCounted; ++i) before[i] = count(i);
  steps.step(batch);
  const char* const names[] = {"own kernels", "cuDNN plans", "cuBLASLt products",
                               "copies and fills"};
  std::printf("%s, %d layers, %s, a step of %lld samples:\n", folder.c_str(), model.layer_count(),
              precision.c_str(), static_cast<long long>(batch.samples));
  for (int i = 0; i < cuda::stand_in::kCounted; ++i) {
    const std::int64_t own = count(i) - before[i];
    all += own;
    std::printf("%8lld %s\n", static_cast<long long>(own), names[i]);
  }
  std::printf("%8lld in all\n", static_cast<long long>(all));
}

}  // namespace
}  // namespace hetpipe

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    std::fprintf(stderr, "usage: cuda_double_launches MODEL [fp32 | tf32 | bf16 | fp16]\n");
    return 2;
  }
  try {
    hetpipe::print_launches(argv[1], argc > 2 ? argv[2] : "fp32");
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
  return 0;
}
