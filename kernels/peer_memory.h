// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace hetpipe {

// Device memory between processes of one machine: one makes a block and gives its handle away, the
// other opens it, and then copies of its own device read it. Who made a block keeps it until nobody
// has it open any more.
class PeerMemory {
 public:
  class Block {
   public:
    virtual ~Block() = default;
    virtual std::byte* data() const = 0;
  };
  struct Shared {
    std::unique_ptr<Block> block;
    std::string handle;
  };

  virtual ~PeerMemory() = default;
  // Counted as memory for paths.
  virtual Shared share(std::size_t bytes) = 0;
  // SystemError where this device cannot reach that memory.
  virtual std::unique_ptr<Block> open(const std::string& handle) = 0;
};

}  // namespace hetpipe
