// SPDX-License-Identifier: Apache-2.0
#include "runtime/pipeline/spare_buffers.h"

#include <utility>

namespace hetpipe {

void SpareBuffers::keep(std::size_t bytes, int count) {
  if (bytes == 0) return;
  for (int i = 0; i < count; ++i) {
    ++sizes_[bytes].kept;
    sizes_[bytes].here.emplace_back(device_, stream_, bytes, kind_);
  }
}

Buffer SpareBuffers::take(std::size_t bytes) {
  for (auto size = sizes_.lower_bound(bytes); size != sizes_.end(); ++size) {
    std::vector<Buffer>& here = size->second.here;
    if (here.empty()) continue;
    Buffer buffer = std::move(here.back());
    here.pop_back();
    return buffer;
  }
  return {device_, stream_, bytes, kind_};
}

void SpareBuffers::give_back(Buffer buffer) {
  const auto size = sizes_.find(buffer.bytes());
  if (size == sizes_.end() || size->second.here.size() == size->second.kept) return;
  size->second.here.push_back(std::move(buffer));
}

}  // namespace hetpipe
