// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"

// Who computes which samples of a minibatch: a pure function, the same on every rank.
namespace hetpipe {

// Samples [first, end) of a minibatch.
struct SampleSpan {
  std::int64_t first = 0;
  std::int64_t end = 0;
  std::int64_t count() const { return end - first; }
  bool operator==(const SampleSpan&) const = default;
};
SampleSpan common(SampleSpan a, SampleSpan b);

// A minibatch is split into micro-batches, consecutive and as equal as possible (the first ones are
// longer by one), and each of these among a stage's replicas, in proportion to their shares:
// replica r of shares s has [n c_r / S, n c_{r+1} / S) of n samples, c the sums before it, S all.
// Either may be empty.
class SampleSplit {
 public:
  // shares[stage][replica], all positive.
  SampleSplit(int micro_batches, std::vector<std::vector<int>> shares)
      : micro_batches_(micro_batches), shares_(std::move(shares)) {}

  int micro_batches() const { return micro_batches_; }
  int replicas(int stage) const {
    return static_cast<int>(shares_[static_cast<std::size_t>(stage)].size());
  }
  SampleSpan micro(std::int64_t samples, int micro) const;
  SampleSpan of(std::int64_t samples, int micro, int stage, int replica) const;
  // The same for samples that are not split into micro-batches.
  SampleSpan whole(std::int64_t samples, int stage, int replica) const;

 private:
  SampleSpan share(SampleSpan of, int stage, int replica) const;

  int micro_batches_;
  std::vector<std::vector<int>> shares_;
};

}  // namespace hetpipe
