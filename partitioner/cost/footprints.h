// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "partitioner/cluster/cluster.h"
#include "partitioner/cost/footprint.h"
#include "partitioner/cost/gradient_peaks.h"
#include "partitioner/cost/run_maxima.h"
#include "partitioner/profile/tied.h"

// Footprints for searches, which ask for those of millions of stages: from sums over the layers,
// made once.
namespace hetpipe {

// What a model's layers say of a cut, whatever the devices.
struct ModelCuts {
  explicit ModelCuts(const Profile& profile);

  std::vector<std::vector<int>> readers;      // [layer], ascending
  std::vector<std::vector<int>> crossing;     // [cut]: layers before it with a reader behind it
  std::vector<std::vector<int>> next_reader;  // [cut]: of each of these, the first behind it
  std::vector<std::int64_t> parameters;       // running sums of layers' own
  std::vector<TiedWeight> tied;
  std::vector<std::int64_t> of_layer;        // parameters, those of other layers too
  std::vector<std::pair<int, double>> read;  // layers that read samples, bytes of each sample
  std::vector<bool> kept_for_readers;        // [layer], see ProfileLayer; empty if there is none
};

// What layers need on a device that computes so many samples in a call.
struct LayerFootprints {
  LayerFootprints(const Profile& profile, std::shared_ptr<const ModelCuts> cuts,
                  const LayerCosts& costs, int samples);

  struct Sums {
    std::int64_t parameters = 0;
    std::int64_t stash = 0;
  };

  std::shared_ptr<const ModelCuts> cuts;
  int samples;
  bool own_memory;
  std::vector<std::int64_t> stash_bytes;
  std::vector<std::int64_t> output_bytes;
  std::vector<Sums> sums;          // of the layers before each
  std::vector<std::int64_t> kept;  // stashes of the layers before each
  GradientPeaks gradients;
  std::optional<RunMaxima> updating;  // none where no update has any
};

// Of a device that computes so many samples in a call, and `micro_batches` of them in one action.
class Footprints {
 public:
  Footprints(std::shared_ptr<const LayerFootprints> layers, int micro_batches)
      : of_(std::move(layers)), micro_batches_(micro_batches) {}

  // Of the layers [first, end), see StageFootprint; `stash` of one micro-batch.
  std::int64_t parameters(int first, int end) const {
    return of_->sums[static_cast<std::size_t>(end)].parameters -
           of_->sums[static_cast<std::size_t>(first)].parameters;
  }
  // Grow with `end`.
  std::int64_t uses(int first, int end) const {
    std::int64_t bytes = 0;
    for (const TiedWeight& tied : of_->cuts->tied) {
      bytes += tied.bytes * static_cast<std::int64_t>(tied.users_in(first, end));
    }
    return bytes;
  }
  std::int64_t foreign(int first, int end) const {
    std::int64_t bytes = 0;
    for (const TiedWeight& tied : of_->cuts->tied) {
      if (tied.owner < first && tied.users_in(first, end) > 0) bytes += tied.bytes;
    }
    return bytes;
  }
  const std::vector<TiedWeight>& tied() const { return of_->cuts->tied; }
  std::int64_t stash(int first, int end) const {
    const auto to = static_cast<std::size_t>(end);
    std::int64_t bytes = of_->sums[to].stash - of_->sums[static_cast<std::size_t>(first)].stash;
    if (of_->cuts->kept_for_readers.empty()) return bytes;
    for (const int l : of_->cuts->crossing[to]) {
      const auto at = static_cast<std::size_t>(l);
      if (l < first || !of_->cuts->kept_for_readers[at] || of_->cuts->readers[at].front() < end)
        continue;
      bytes -= std::min(of_->output_bytes[at], of_->stash_bytes[at]);
    }
    return bytes;
  }
  // `stash`: of the same layers. The sum of each and of it grows with `end`.
  struct Backwards {
    std::int64_t working = 0;
    std::int64_t gradients = 0;
    std::int64_t adding = 0;
  };
  Backwards backwards(int first, int end, std::int64_t stash) const {
    const GradientPeaks::Most most = of_->gradients.before_last(first, end);
    const GradientPeaks::Most last = of_->gradients.last(first, end);
    const std::int64_t freed = of_->kept[static_cast<std::size_t>(first)] + stash;
    const std::int64_t of_last = of_->kept[static_cast<std::size_t>(end)];
    return {std::max(most.unknown, last.unknown), std::max<std::int64_t>(0, most.known - freed),
            std::max({std::int64_t{0}, most.adding - freed, last.adding - of_last})};
  }
  // No less than the larger of working and gradients.
  std::int64_t works_on_at_most(int first, int end, std::int64_t stash) const {
    const GradientPeaks::Most most = of_->gradients.at_most(first, end);
    return std::max({std::int64_t{0}, most.unknown,
                     most.known - of_->kept[static_cast<std::size_t>(first)] - stash});
  }
  std::int64_t samples_ahead(int first, int end) const {
    if (!of_->own_memory) return 0;
    double most = 0;
    for (const auto& [layer, bytes] : of_->cuts->read) {
      if (layer >= first && layer < end) most = std::max(most, bytes * of_->samples);
    }
    return static_cast<std::int64_t>(most);
  }

  std::int64_t updating(int first, int end) const {
    return of_->updating ? of_->updating->of(first, end) : 0;
  }

  // All of it, without messages. Grows with `end`.
  StageFootprint alone(int first, int end) const;
  // Whatever the other cuts are: what is sent goes to one later stage. To the byte where no tensor
  // is read in two.
  StageFootprint least(int first, int end) const;
  // To the byte.
  StageFootprint of(std::span<const int> stage_end, StageId stage) const;

  // Fills what a stage whose W is apart brings; the others leave it out, since no sums tell it.
  void add_late(StageFootprint& footprint, int first, int end) const;

 private:
  StageFootprint with_received(int first, int end) const;

  std::shared_ptr<const LayerFootprints> of_;
  int micro_batches_;
};

}  // namespace hetpipe
