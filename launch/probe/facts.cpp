// SPDX-License-Identifier: Apache-2.0
#include "launch/probe/facts.h"

#include <cctype>
#include <fstream>

#include "base/error.h"
#include "kernels/cuda_loader.h"
#include "kernels/devices.h"
#include "launch/probe/near_cores.h"
#include "launch/probe/pcie.h"

namespace hetpipe {
namespace {

// Empty where there is no such file.
std::string first_line_of_file(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// NVML's answer is about this very slot; without it Linux says what both ends could do.
std::string pcie_of(const GpuInfo& gpu, const Nvml* nvml) {
  std::optional<PcieLink> link = nvml != nullptr ? nvml->pcie_link(gpu.uuid) : std::nullopt;
  if (!link) link = pcie_link_of("/sys/bus/pci/devices/" + gpu.pci);
  return link ? to_string(*link) : "";
}

}  // namespace

std::string driver_version() { return first_line_of_file("/sys/module/nvidia/version"); }

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name")) continue;
    const auto colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return {};
}

ProbeFacts probe_facts_here(LookForCards look) {
  ProbeFacts facts;
  facts.rank = facts_of_this_rank();
  facts.processor = processor_name();
  if (look == LookForCards::no) return facts;
  VisibleGpus seen = visible_gpus();
  facts.why_no_card = seen.why_none;
  facts.left_out = seen.left_out;
  LoadedNvml loaded;
  if (!seen.gpus.empty()) loaded = try_load_nvml();
  facts.why_no_nvlink = loaded.why_not;
  const Nvml* const nvml = loaded.nvml.get();
  for (GpuInfo& gpu : seen.gpus) {
    gpu.free_memory = free_memory_of(gpu, nvml);
    // As Linux and NVML write it.
    for (char& c : gpu.pci) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    SeenCard card;
    card.pcie = pcie_of(gpu, nvml);
    if (nvml != nullptr) card.nvlink = nvml->nv_links(gpu.uuid);
    card.near_cores = near_cores(gpu.numa_node);
    card.gpu = std::move(gpu);
    facts.cards.push_back(std::move(card));
  }
  if (const CudaModule* const cuda = load_cuda().module) facts.libraries = cuda->versions();
  if (!facts.cards.empty()) facts.driver = driver_version();
  return facts;
}

}  // namespace hetpipe
