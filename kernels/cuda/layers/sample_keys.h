// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "base/error.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/layers/layers.h"
#include "kernels/dropout.h"

namespace hetpipe::cuda {

// The keys of a call's draws, one of each sample, in device memory.
inline Workspace<std::uint64_t> sample_keys(const LayerContext& context, Stream& stream,
                                            std::uint64_t layer_key, std::int64_t samples,
                                            std::span<const SampleKey> of) {
  ensure(static_cast<std::int64_t>(of.size()) == samples, "one sample key per sample");
  std::vector<std::uint64_t> keys;
  for (const SampleKey& sample : of) keys.push_back(dropout_key(layer_key, sample));
  Workspace<std::uint64_t> there(context, stream, samples);
  // Read before the call returns: the host's memory is pageable.
  check(cudaMemcpyAsync(there.get(), keys.data(), keys.size() * sizeof keys[0],
                        cudaMemcpyHostToDevice, handle(stream)),
        "copying the keys of dropout");
  return there;
}

}  // namespace hetpipe::cuda
