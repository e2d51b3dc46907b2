// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "kernels/buffer.h"

namespace hetpipe {

// Memory that is kept for messages of some sizes, from one to the next: so many of each take as
// much however soon the receiver has them. More than are kept come from the device and go back to
// it.
class SpareBuffers {
 public:
  SpareBuffers(Device& device, Stream& stream, MemoryKind kind)
      : device_(device), stream_(stream), kind_(kind) {}

  // From now on `count` more of this size.
  void keep(std::size_t bytes, int count);
  // At least as large: the smallest kept one that is here, else new.
  Buffer take(std::size_t bytes);
  void give_back(Buffer buffer);

 private:
  struct OfSize {
    std::size_t kept = 0;
    std::vector<Buffer> here{};
  };
  Device& device_;
  Stream& stream_;
  MemoryKind kind_;
  std::map<std::size_t, OfSize> sizes_;
};

}  // namespace hetpipe
