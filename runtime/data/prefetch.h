// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "base/ids.h"
#include "base/sample.h"
#include "runtime/data/dataset.h"
#include "runtime/data/sample_split.h"
#include "runtime/data/sampler.h"
#include "runtime/data/samples.h"

// Minibatches assembled ahead of their use by a thread, so that a stage never waits for a copy.
namespace hetpipe {

// The other label of a mixed sample, and how much of the sample the first one is of.
struct MixedLabel {
  std::int32_t other = 0;
  float share = 1;
  bool operator==(const MixedLabel&) const = default;
};

struct Batch {
  Minibatch minibatch = 0;
  int count = 0;  // samples
  // (count, H, W, C) or (count, tokens) in the type of the data set, or in mixed_type(); empty when
  // there are none.
  Samples images;
  // (count) or (count, tokens): labels_per_sample each, kNoLabel where nothing is predicted; empty
  // when the data set holds none.
  std::vector<std::int32_t> labels;
  std::vector<SampleKey> keys;  // (count)
  // What the labels of a sample weigh on average, over the whole minibatch (of which these may be a
  // part); 0: as many as there are labels.
  double loss_weight = 0;
  std::vector<MixedLabel> mixed = {};  // (count), of the labels; empty: nothing is mixed
};

// These samples, one after another: the parts that the data set holds. `masking_seed` keys which
// tokens are hidden, where the data set is for masked language modelling. `memory`: for the images.
// `threads`: that read them, where they are not in memory.
Batch assemble_samples(const Dataset& dataset, std::vector<SampleKey> keys,
                       std::uint64_t masking_seed, const SampleMemory& memory = ordinary_memory,
                       int threads = 1);

// The elements at these positions of the sampler's stream, mixed as the data set says.
Batch assemble_positions(const Dataset& dataset, const Sampler& sampler,
                         std::span<const std::int64_t> positions,
                         const SampleMemory& memory = ordinary_memory, int threads = 1);

// Of one minibatch of one virtual worker the samples of these spans, one span after another: the
// parts that the data set holds.
Batch assemble_batch(const Dataset& dataset, const Sampler& sampler, int worker,
                     Minibatch minibatch, std::span<const SampleSpan> spans,
                     const SampleMemory& memory = ordinary_memory, int threads = 1);

class Prefetcher {
 public:
  using Assemble = std::function<Batch(Minibatch)>;
  static constexpr int kDepth = 3;  // minibatches that are ready

  // Minibatches [first, end) by any function; only the thread calls it.
  Prefetcher(Assemble assemble, Minibatch first, Minibatch end, double deadline_seconds,
             int depth = kDepth);
  ~Prefetcher();  // stops after the minibatch in the making
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // Minibatches come in their order, each once. Rethrows what the thread threw; SystemError when
  // the minibatch is not there within the deadline.
  Batch take(Minibatch minibatch);
  // The same, if it is the next one and there already.
  std::optional<Batch> try_take(Minibatch minibatch);

 private:
  void run(Minibatch first);
  Batch take_first(std::unique_lock<std::mutex> lock);

  const Assemble assemble_;
  const Minibatch end_;
  const double deadline_seconds_;
  const std::size_t depth_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Batch> ready_;  // guarded by mutex_, as all below
  Minibatch next_;           // that take() will be asked for
  std::exception_ptr failure_;
  bool stop_ = false;
  std::thread thread_;  // last: starts when everything above is ready
};

}  // namespace hetpipe
