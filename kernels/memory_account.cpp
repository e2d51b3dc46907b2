// SPDX-License-Identifier: Apache-2.0
#include "kernels/memory_account.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/text.h"

namespace hetpipe {

const char* to_string(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::weights:
      return "weights";
    case MemoryKind::versions:
      return "versions";
    case MemoryKind::gradients:
      return "gradients";
    case MemoryKind::optimizer:
      return "optimizer";
    case MemoryKind::activations:
      return "activations";
    case MemoryKind::messages:
      return "messages";
    case MemoryKind::workspace:
      return "workspace";
    case MemoryKind::paths:
      return "paths";
  }
  ensure(false, "memory kind out of range");
  return "";
}

void MemoryAccount::set_budget(std::size_t bytes, std::string device_name) {
  budget_ = bytes;
  device_name_ = std::move(device_name);
}

void MemoryAccount::take(std::size_t bytes, MemoryKind kind) {
  if (budget_ != 0 && (used_ > budget_ || bytes > budget_ - used_)) {
    throw OutOfMemory(
        format("device %s: %s for %s do not fit into its memory of %s (%s in use). Use smaller "
               "micro-batches, fewer minibatches in flight or another partition.\n%s",
               device_name_.c_str(), format_bytes(static_cast<double>(bytes)).c_str(),
               to_string(kind), format_bytes(static_cast<double>(budget_)).c_str(),
               format_bytes(static_cast<double>(used_)).c_str(), ledger().c_str()));
  }
  used_ += bytes;
  std::size_t& of_kind = by_kind_[static_cast<std::size_t>(kind)];
  of_kind += bytes;
  std::size_t& peak_of_kind = peaks_[static_cast<std::size_t>(kind)];
  peak_of_kind = std::max(peak_of_kind, of_kind);
  peak_ = std::max(peak_, used_);
}

void MemoryAccount::give_back(std::size_t bytes, MemoryKind kind) noexcept {
  std::size_t& kind_used = by_kind_[static_cast<std::size_t>(kind)];
  ensure(bytes <= kind_used, "more memory given back than was taken");
  kind_used -= bytes;
  used_ -= bytes;
}

std::string MemoryAccount::ledger() const {
  std::string text;
  for (std::size_t k = 0; k < by_kind_.size(); ++k) {
    if (by_kind_[k] == 0) continue;
    if (!text.empty()) text += '\n';
    text += format("  %-12s %s", to_string(static_cast<MemoryKind>(k)),
                   format_bytes(static_cast<double>(by_kind_[k])).c_str());
  }
  return text;
}

}  // namespace hetpipe
