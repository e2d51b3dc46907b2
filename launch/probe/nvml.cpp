// SPDX-License-Identifier: Apache-2.0
#include "launch/probe/nvml.h"

#include <dlfcn.h>

#include <map>
#include <type_traits>

#include "base/error.h"
#include "base/text.h"

namespace hetpipe {
namespace {

// As in nvml.h, which no package without the whole toolkit has. The library keeps old names and
// layouts; what changed has got a new name ("_v2").
constexpr int kSuccess = 0;
constexpr unsigned kUp = 1;           // NVML_FEATURE_ENABLED
constexpr unsigned kSwitch = 2;       // NVML_NVLINK_DEVICE_TYPE_SWITCH
constexpr unsigned kMostLinks = 64;   // a card has 18 at most so far
constexpr unsigned kLinkSpeed = 90;   // NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON
constexpr unsigned kUnsignedInt = 1;  // NVML_VALUE_TYPE_UNSIGNED_INT

struct PciInfo {  // nvmlPciInfo_t
  char legacy_address[16];
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned ids[2];
  char address[32];
};

struct Memory {  // nvmlMemory_t
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

struct FieldValue {  // nvmlFieldValue_t
  unsigned field;
  unsigned scope;
  long long timestamp;
  long long latency;
  unsigned type;
  int result;
  union {
    unsigned as_unsigned;
    double as_double;
  };
};

}  // namespace

struct Nvml::Calls {
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  const char* (*error_string)(int) = nullptr;
  int (*by_uuid)(const char*, void**) = nullptr;
  int (*memory)(void*, Memory*) = nullptr;
  int (*pcie_generation)(void*, unsigned*) = nullptr;
  int (*pcie_width)(void*, unsigned*) = nullptr;
  int (*link_state)(void*, unsigned, unsigned*) = nullptr;
  int (*link_peer)(void*, unsigned, PciInfo*) = nullptr;
  int (*link_peer_type)(void*, unsigned, unsigned*) = nullptr;  // drivers before 450 lack it
  int (*field_values)(void*, int, FieldValue*) = nullptr;
};

Nvml::Nvml(const std::string& library)
    : library_(dlopen(library.c_str(), RTLD_LAZY | RTLD_LOCAL)), calls_(std::make_unique<Calls>()) {
  if (library_ == nullptr) throw SystemError(std::string("NVML: ") + dlerror());
  const auto load = [&](auto& call, const char* name) {
    call = reinterpret_cast<std::remove_reference_t<decltype(call)>>(dlsym(library_, name));
    return call != nullptr;
  };
  load(calls_->link_peer_type, "nvmlDeviceGetNvLinkRemoteDeviceType");
  const bool complete = load(calls_->init, "nvmlInit_v2") &&
                        load(calls_->shutdown, "nvmlShutdown") &&
                        load(calls_->error_string, "nvmlErrorString") &&
                        load(calls_->by_uuid, "nvmlDeviceGetHandleByUUID") &&
                        load(calls_->memory, "nvmlDeviceGetMemoryInfo") &&
                        load(calls_->pcie_generation, "nvmlDeviceGetMaxPcieLinkGeneration") &&
                        load(calls_->pcie_width, "nvmlDeviceGetMaxPcieLinkWidth") &&
                        load(calls_->link_state, "nvmlDeviceGetNvLinkState") &&
                        load(calls_->link_peer, "nvmlDeviceGetNvLinkRemotePciInfo_v2") &&
                        load(calls_->field_values, "nvmlDeviceGetFieldValues");
  std::string why = complete ? "" : library + " is too old";
  if (complete) {
    const int status = calls_->init();
    if (status != kSuccess) why = calls_->error_string(status);
  }
  if (why.empty()) return;
  dlclose(library_);
  throw SystemError("NVML: " + why);
}

Nvml::~Nvml() {
  calls_->shutdown();
  dlclose(library_);
}

void* Nvml::find(const std::string& uuid) const {
  void* device = nullptr;
  return calls_->by_uuid(uuid.c_str(), &device) == kSuccess ? device : nullptr;
}

std::optional<PcieLink> Nvml::pcie_link(const std::string& uuid) const {
  void* const device = find(uuid);
  unsigned generation = 0;
  unsigned lanes = 0;
  if (device == nullptr || calls_->pcie_generation(device, &generation) != kSuccess ||
      calls_->pcie_width(device, &lanes) != kSuccess) {
    return std::nullopt;
  }
  return PcieLink{static_cast<int>(generation), static_cast<int>(lanes)};
}

std::optional<std::size_t> Nvml::free_memory(const std::string& uuid) const {
  void* const device = find(uuid);
  Memory memory{};
  if (device == nullptr || calls_->memory(device, &memory) != kSuccess) return std::nullopt;
  return static_cast<std::size_t>(memory.free);
}

std::vector<NvLinks> Nvml::nv_links(const std::string& uuid) const {
  void* const device = find(uuid);
  if (device == nullptr) return {};
  std::map<std::string, int> links;  // by peer
  for (unsigned link = 0; link < kMostLinks; ++link) {
    unsigned state = 0;
    // Links behind the last one are refused, and all of a card that has none.
    if (calls_->link_state(device, link, &state) != kSuccess) break;
    if (state != kUp) continue;
    unsigned type = 0;
    if (calls_->link_peer_type != nullptr) calls_->link_peer_type(device, link, &type);
    PciInfo peer{};
    std::string to;
    if (type != kSwitch && calls_->link_peer(device, link, &peer) == kSuccess) {
      to = format("%04x:%02x:%02x.0", peer.domain, peer.bus, peer.device);
    }
    ++links[to];
  }
  FieldValue speed{};
  speed.field = kLinkSpeed;
  const bool stated = calls_->field_values(device, 1, &speed) == kSuccess &&
                      speed.result == kSuccess && speed.type == kUnsignedInt;
  std::vector<NvLinks> peers;
  for (const auto& [to, count] : links) {
    peers.push_back({to, count, stated ? speed.as_unsigned * 1e6 : 0});
  }
  return peers;
}

std::size_t free_memory_of(const GpuInfo& gpu, const Nvml* nvml) {
  const std::optional<std::size_t> free =
      nvml != nullptr ? nvml->free_memory(gpu.uuid) : std::nullopt;
  return free.value_or(gpu.memory);
}

LoadedNvml try_load_nvml() {
  try {
    return {std::make_unique<Nvml>(), ""};
  } catch (const SystemError& error) {
    return {nullptr, error.what()};
  }
}

}  // namespace hetpipe
