// SPDX-License-Identifier: Apache-2.0
#include "runtime/pipeline/message_memory.h"

#include "base/index.h"

namespace hetpipe {

MessageMemory::MessageMemory(Device& device, Stream& stream, std::int64_t floats, int pieces,
                             MemoryKind kind)
    : device_(device), stream_(stream), floats_(floats), kind_(kind), pieces_(at(pieces)) {}

std::shared_ptr<Buffer> MessageMemory::next(const Wait& wait) {
  if (floats_ == 0) return nullptr;
  newest_ = (newest_ + 1) % pieces_.size();
  Piece& piece = pieces_[newest_];
  for (const Operation& operation : piece.operations) wait(operation);
  piece.operations.clear();
  if (!piece.data) {
    piece.data = std::make_shared<Buffer>(device_, stream_,
                                          static_cast<std::size_t>(floats_) * sizeof(float), kind_);
  }
  return piece.data;
}

void MessageMemory::sent(Operation operation) {
  pieces_[newest_].operations.push_back(std::move(operation));
}

void MessageMemory::finish(const Wait& wait) {
  for (Piece& piece : pieces_) {
    for (const Operation& operation : piece.operations) wait(operation);
    piece.operations.clear();
  }
}

}  // namespace hetpipe
