// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/index.h"
#include "partitioner/profile/cut.h"
#include "runtime/model/layer_groups.h"
#include "runtime/model/parameters.h"

// What forward and backward of a stage share.
namespace hetpipe::stage_parts {

// Where the tensor of `layer` starts inside a packed transfer, in bytes; -1 when it is not part of
// it.
template <class BytesOf>
std::int64_t offset_in(const Transfer& transfer, int layer, BytesOf bytes_of) {
  std::int64_t offset = 0;
  for (int l : transfer.layers) {
    if (l == layer) return offset;
    offset += bytes_of(l);
  }
  return -1;
}

template <class T>
std::vector<T*> parameter_pointers(const ParameterLayout& layout, const LayerGroup& group,
                                   T* flat) {
  std::vector<T*> pointers;
  for (const ParameterEntry& entry : layout.of_layers(group.first, group.end)) {
    pointers.push_back(flat + entry.offset);
  }
  return pointers;
}

}  // namespace hetpipe::stage_parts
