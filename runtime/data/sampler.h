// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "base/sample.h"

// Which samples a minibatch holds: a function, without state, of (seed, worker, minibatch).
//
// A training is one global stream of positions: position s is an element of epoch s / size, in that
// epoch's own permutation. In round r the virtual workers take, in their order, their next
// minibatch of positions; a minibatch may straddle two epochs:
//
//   two workers, minibatches of 3 and 2, stream of 12 positions:
//   position   0 1 2 | 3 4 | 5 6 7 | 8 9 | 10 11
//   worker     0 0 0 | 1 1 | 0 0 0 | 1 1 |  0  0      the last round is partial
//   round      0 0 0 | 0 0 | 1 1 1 | 1 1 |  2  2
//
// So every element is drawn exactly once per epoch over all workers, and what any number of whole
// rounds has consumed is a prefix of the stream: another set of workers can continue from there.
namespace hetpipe {

struct SampleRange {
  std::int64_t first = 0;  // position in the stream
  int count = 0;
  bool operator==(const SampleRange&) const = default;
};

// shuffled: each epoch in a permutation of its own; file: in the order of the data set.
enum class SampleOrder { shuffled, file };

class Sampler {
 public:
  // minibatch_of_worker: samples, each positive. Positions [first_position, end_position) are dealt
  // out; end_position is usually epochs * dataset_size. Every worker's first minibatch is number
  // first_minibatch (not 0 after a resume).
  Sampler(std::uint64_t seed, std::int64_t dataset_size, std::vector<int> minibatch_of_worker,
          std::int64_t first_position, std::int64_t end_position, Minibatch first_minibatch = 0,
          SampleOrder order = SampleOrder::shuffled);

  std::uint64_t seed() const { return seed_; }
  int workers() const { return static_cast<int>(sizes_.size()); }
  Minibatch first_minibatch() const { return first_minibatch_; }

  // One past the worker's last minibatch (first_minibatch() when nothing is left for it).
  Minibatch count(int worker) const;
  // The positions of a worker's minibatch: as many as its minibatch size, fewer in the last round,
  // none when the stream ended before (then first is the end).
  SampleRange samples(int worker, Minibatch minibatch) const;
  SampleKey key(std::int64_t position) const;
  // What the element at a position is mixed with: the one before it in its epoch's order, the last
  // one before the first.
  SampleKey partner(std::int64_t position) const;
  // Position in the stream after that many rounds of this sampler.
  std::int64_t consumed(std::int64_t rounds) const;

 private:
  std::uint64_t seed_;
  std::int64_t dataset_size_;
  std::vector<int> sizes_;
  std::vector<std::int64_t> before_;  // samples of a round taken by the workers before this one
  std::int64_t round_ = 0;            // samples of a whole round
  std::int64_t first_position_;
  std::int64_t end_position_;
  Minibatch first_minibatch_;
  SampleOrder order_;
};

}  // namespace hetpipe
