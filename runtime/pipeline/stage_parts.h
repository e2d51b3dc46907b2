// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/index.h"
#include "partitioner/profile/cut.h"
#include "runtime/model/layer_groups.h"
#include "runtime/model/parameters.h"
#include "runtime/pipeline/stage.h"

// What forward and backward of a stage share.
namespace hetpipe::stage_parts {

// Where the tensor of `layer` starts inside a packed transfer, in bytes; -1 when it is not part of
// it. `number`: of its gradients, which one.
template <class BytesOf>
std::int64_t offset_in(const Transfer& transfer, int layer, BytesOf bytes_of, int number = 0) {
  std::int64_t offset = 0;
  for (const std::vector<int>* layers : {&transfer.layers, &transfer.more_gradients}) {
    for (const int l : *layers) {
      if (l == layer && number-- == 0) return offset;
      offset += bytes_of(l);
    }
  }
  return -1;
}

inline std::vector<float*> statistics_pointers(const ParameterLayout& layout,
                                               const LayerGroup& group, float* flat) {
  std::vector<float*> pointers;
  for (const ParameterEntry& entry : layout.of_layers(group.first, group.end)) {
    pointers.push_back(flat + entry.offset);
  }
  return pointers;
}

inline std::vector<const float*> weight_pointers(const ParameterLayout& layout,
                                                 const LayerGroup& group,
                                                 const StageWeights& weights) {
  std::vector<const float*> pointers;
  for (const ParameterEntry& entry : layout.of_layers(group.first, group.end)) {
    pointers.push_back(layout.weight_of(entry, weights.own, weights.foreign));
  }
  return pointers;
}

}  // namespace hetpipe::stage_parts
