// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/layers/packed_arrays.h"
#include "kernels/cuda/own/strided.h"
#include "kernels/strided_loops.h"

namespace hetpipe::cuda {

// Terms of sums: term i is place places[i] (where there are none: i) of a sample of `others`
// elements, and goes to element elements[i].
struct ReadTerms {
  LoopNumbers elements, places;
  std::int64_t others = 0;
};

// Sums by lists (own/strided.h), which are kept in device memory.
class KeptReads {
 public:
  // One part for each of `terms`.
  KeptReads(const LayerContext& context, std::int64_t elements,
            const std::vector<ReadTerms>& terms);
  // `values[p]` of part p: float, or where `floats[p]` is false T. samples: that are summed over.
  Reads reads(const std::vector<const void*>& values, const std::vector<bool>& floats,
              std::int64_t samples) const;
  // The lists of the one part there is.
  const std::int32_t* starts() const { return arrays_.at<std::int32_t>(starts_[0]); }
  const std::int32_t* entries() const { return arrays_.at<std::int32_t>(entries_[0]); }

 private:
  KeptArrays arrays_;
  std::vector<std::size_t> starts_, entries_;
  std::vector<std::int64_t> others_;
  std::int64_t elements_ = 0, terms_ = 0;
};

}  // namespace hetpipe::cuda
