// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/fields.h"
#include "kernels/cuda/module.h"
#include "launch/probe/pcie.h"

// What the driver's management library (NVML) knows of a card's links, and CUDA does not. It comes
// with the driver, not with the toolkit, so it is loaded if present, and nothing is linked.
namespace hetpipe {

// NVLinks of a card that are up, to one peer.
struct NvLinks {
  std::string to;  // PCI address of a card, "0000:3b:00.0"; empty: switches
  int links = 0;
  double bandwidth = 0;  // bytes/s of one link in each direction, as stated; 0: it is not
};
constexpr auto fields_of(Type<NvLinks>) {
  return fields<&NvLinks::to, &NvLinks::links, &NvLinks::bandwidth>;
}

class Nvml {
 public:
  static constexpr const char* kLibrary = "libnvidia-ml.so.1";

  // SystemError if there is no such library, or it does not start.
  explicit Nvml(const std::string& library = kLibrary);
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;
  ~Nvml();

  // Of the card with this UUID ("GPU-8d2f..."). Nothing where the library does not know.
  std::optional<PcieLink> pcie_link(const std::string& uuid) const;  // the most of card and slot
  std::vector<NvLinks> nv_links(const std::string& uuid) const;      // cards by address, switches
  std::optional<std::size_t> free_memory(const std::string& uuid) const;  // bytes, now

 private:
  struct Calls;
  void* find(const std::string& uuid) const;  // null: not known

  void* library_ = nullptr;
  std::unique_ptr<Calls> calls_;
};

// Of a card; all of its memory where the library (null: there is none) does not know.
std::size_t free_memory_of(const GpuInfo& gpu, const Nvml* nvml);
// The library, and why there is none.
struct LoadedNvml {
  std::unique_ptr<Nvml> nvml;
  std::string why_not;
};
LoadedNvml try_load_nvml();

}  // namespace hetpipe
