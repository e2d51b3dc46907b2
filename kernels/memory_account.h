// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <string>

namespace hetpipe {

// paths: what paths between devices share with peers (peer_memory.h).
enum class MemoryKind {
  weights,
  versions,
  gradients,
  optimizer,
  activations,
  messages,
  workspace,
  paths
};
inline constexpr int kMemoryKinds = 8;
const char* to_string(MemoryKind kind);

// Bytes in use on one device, by kind, against a budget: real memory, or that of an emulated
// device.
class MemoryAccount {
 public:
  // 0: no budget.
  void set_budget(std::size_t bytes, std::string device_name);

  void take(std::size_t bytes, MemoryKind kind);  // OutOfMemory, with the ledger, when over budget
  void give_back(std::size_t bytes, MemoryKind kind) noexcept;

  std::size_t used() const { return used_; }
  std::size_t used(MemoryKind kind) const { return by_kind_[static_cast<std::size_t>(kind)]; }
  std::size_t peak() const { return peak_; }  // since the last restart_peak()
  std::size_t peak(MemoryKind kind) const { return peaks_[static_cast<std::size_t>(kind)]; }
  void restart_peak() { peak_ = used_; }  // of all kinds together
  std::string ledger() const;             // one line per kind in use

 private:
  std::array<std::size_t, kMemoryKinds> by_kind_{};
  std::array<std::size_t, kMemoryKinds> peaks_{};
  std::size_t used_ = 0;
  std::size_t peak_ = 0;
  std::size_t budget_ = 0;
  std::string device_name_;
};

}  // namespace hetpipe
