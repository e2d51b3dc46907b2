// SPDX-License-Identifier: Apache-2.0
#include "kernels/devices.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "kernels/cpu/cpu_device.h"
#include "kernels/cuda_loader.h"
#include "kernels/offload/clock_device.h"
#include "kernels/offload/offload_device.h"
#include "kernels/reference/reference_device.h"

namespace hetpipe {

VisibleGpus visible_gpus() {
  const CudaLoad& cuda = load_cuda();
  if (cuda.module == nullptr) return {{}, cuda.why_not, {}};
  try {
    VisibleGpus seen;
    for (GpuInfo& gpu : cuda.module->gpus()) {
      if (gpu.why_not.empty()) {
        seen.gpus.push_back(std::move(gpu));
      } else {
        seen.left_out.push_back(std::move(gpu.why_not));
      }
    }
    if (!seen.gpus.empty()) return seen;
    seen.why_none = seen.left_out.empty() ? "the driver lists no GPU for this process"
                                          : join(seen.left_out, "; ");
    return seen;
  } catch (const SystemError& error) {
    return {{}, error.what(), {}};
  }
}

std::vector<std::string> known_devices() {
  const VisibleGpus seen = visible_gpus();
  std::string gpus = seen.why_none;
  if (const CudaModule* const module = load_cuda().module) {
    gpus = module->versions() + "; ";
    if (seen.gpus.empty()) {
      gpus += seen.why_none;
    } else {
      if (!seen.left_out.empty()) gpus += "left out: " + join(seen.left_out, "; ") + "; ";
      gpus += format("%zu GPUs", seen.gpus.size());  // the line's end, which scripts read
    }
  }
  return {"cpu: " + onednn_version(), "reference: plain loops",
          "offload: the CPU device with streams and memory like a GPU's", "cuda: " + gpus};
}

std::vector<std::string> device_names() { return {"auto", "cpu", "cuda", "reference", "offload"}; }

std::unique_ptr<Device> make_device(const std::string& name, int threads, const GpuOptions& gpu) {
  if (threads < 1) {
    throw UserError("", format("%d threads for device '%s' (a kernel needs at least one). Ask for "
                               "1 or more.",
                               threads, name.c_str()));
  }
  if (name == "cpu") return make_cpu_device(threads);
  if (name == "reference") return make_reference_device();
  if (name == "offload") {
    return make_offload_device(threads, gpu.precision.value_or(Precision::fp32));
  }
  if (const auto clock = try_parse_clock(name)) return make_clock_device(*clock);
  if (name == "auto") return make_device(choose_device().name, threads, gpu);
  if (name == "cuda") {
    const VisibleGpus seen = visible_gpus();
    if (seen.gpus.empty()) throw SystemError("device cuda: " + seen.why_none);
    return load_cuda().module->make_device(gpu);
  }
  throw UserError("", unknown("device", name, device_names()));
}

bool is_device(const std::string& name) {
  const std::vector<std::string> names = device_names();
  return std::find(names.begin(), names.end(), name) != names.end() ||
         try_parse_clock(name).has_value();
}

bool host_reaches(const std::string& name) {
  return name != "cuda" && !name.starts_with("offload");
}

std::unique_ptr<PeerMemory> make_peer_memory(Device& device) {
  if (device.kind() == "cuda") return load_cuda().module->make_peer_memory(device);
  if (device.kind() == "offload") return make_offload_peer_memory(device);
  return nullptr;
}

DeviceChoice choose_device() {
  VisibleGpus seen = visible_gpus();
  return {seen.gpus.empty() ? "cpu" : "cuda", std::move(seen.why_none)};
}

}  // namespace hetpipe
