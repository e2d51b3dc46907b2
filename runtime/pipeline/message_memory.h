// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "kernels/buffer.h"
#include "runtime/transport/transport.h"

namespace hetpipe {

// What messages of one kind are sent from, one after another: so many pieces of memory, kept from
// message to message, so that however slow the receiver is they take no more, and however fast no
// less. Who wants a piece that is on its way waits until it has gone.
class MessageMemory {
 public:
  using Wait = std::function<void(const Operation&)>;

  // Of `floats` each, made when they are first wanted.
  MessageMemory(Device& device, Stream& stream, std::int64_t floats, int pieces, MemoryKind kind);

  // The piece that has been sent the longest time ago; null if it has no floats.
  std::shared_ptr<Buffer> next(const Wait& wait);
  // A message from the piece that next() gave last.
  void sent(Operation operation);
  void finish(const Wait& wait);  // waits until everything has gone

 private:
  struct Piece {
    std::shared_ptr<Buffer> data;
    std::vector<Operation> operations;
  };
  Device& device_;
  Stream& stream_;
  std::int64_t floats_;
  MemoryKind kind_;
  std::vector<Piece> pieces_;
  std::size_t newest_ = 0;
};

}  // namespace hetpipe
