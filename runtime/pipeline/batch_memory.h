// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>

#include "kernels/device.h"

namespace hetpipe {

// Page-locked memory for batches, kept and lent again: of any thread. Copies of an object lend the
// same memory.
class BatchMemory {
 public:
  // The device outlives what is lent.
  explicit BatchMemory(Device& device);

  // Comes back when the last pointer to it goes. SystemError where there is none.
  std::shared_ptr<std::byte[]> operator()(std::size_t bytes) const;
  // Makes so many free blocks of this size beforehand.
  void reserve(std::size_t bytes, int blocks) const;

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace hetpipe
