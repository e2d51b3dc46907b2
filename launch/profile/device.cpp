// SPDX-License-Identifier: Apache-2.0
#include "launch/profile/device.h"

#include <unistd.h>

#include <filesystem>

#include "base/cache.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/module_file.h"
#include "base/text.h"
#include "kernels/cuda_loader.h"
#include "kernels/devices.h"
#include "launch/probe/facts.h"
#include "launch/probe/nvml.h"
#include "partitioner/cluster/card_name.h"
#include "runtime/training/rank_device.h"

namespace hetpipe {
namespace {

constexpr double kHostShare = 0.8;  // of a machine's memory; the rest is for what else runs

std::uint64_t module_hash() {
  std::error_code error;
  const std::filesystem::path module = module_file("hetpipe_cuda.so");
  return std::filesystem::exists(module, error) ? hash_text(read_file(module)) : 0;
}

}  // namespace

ProfiledDevice open_profiled_device(const ProfiledDeviceOptions& options) {
  ProfiledDevice measured;
  measured.device =
      make_device(options.device, options.threads, {options.gpu, options.precision, plan_cache()});
  measured.kind = measured.device->kind();
  if (measured.kind == "cuda") {
    for (const GpuInfo& gpu : visible_gpus().gpus) {
      if (gpu.index != options.gpu) continue;
      measured.kind = kind_of_card(gpu.name);
      measured.hardware =
          format("%s, %lld MiB", gpu.name.c_str(), static_cast<long long>(gpu.memory >> 20));
      const LoadedNvml loaded = try_load_nvml();
      measured.memory =
          static_cast<double>(free_memory_of(gpu, loaded.nvml.get())) * kUsualPlanShare;
    }
    measured.driver = driver_version();
    measured.libraries = load_cuda().module->versions();
    measured.module = module_hash();
  } else {
    measured.hardware = processor_name();
    measured.libraries = measured.device->description();
    measured.memory = kHostShare * static_cast<double>(sysconf(_SC_PHYS_PAGES)) *
                      static_cast<double>(sysconf(_SC_PAGESIZE));
  }
  return measured;
}

}  // namespace hetpipe
