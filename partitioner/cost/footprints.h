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

// Of a device that computes so many samples in a call, and `micro_batches` of them in one action.
class Footprints {
 public:
  Footprints(const Profile& profile, std::shared_ptr<const ModelCuts> cuts, const LayerCosts& costs,
             int samples, int micro_batches);

  // Of the layers [first, end), see StageFootprint; `stash` of one micro-batch.
  std::int64_t parameters(int first, int end) const {
    return sums_[static_cast<std::size_t>(end)].parameters -
           sums_[static_cast<std::size_t>(first)].parameters;
  }
  // Grow with `end`.
  std::int64_t uses(int first, int end) const {
    std::int64_t bytes = 0;
    for (const TiedWeight& tied : cuts_->tied) {
      bytes += tied.bytes * static_cast<std::int64_t>(tied.users_in(first, end));
    }
    return bytes;
  }
  std::int64_t foreign(int first, int end) const {
    std::int64_t bytes = 0;
    for (const TiedWeight& tied : cuts_->tied) {
      if (tied.owner < first && tied.users_in(first, end) > 0) bytes += tied.bytes;
    }
    return bytes;
  }
  const std::vector<TiedWeight>& tied() const { return cuts_->tied; }
  std::int64_t stash(int first, int end) const {
    const auto to = static_cast<std::size_t>(end);
    std::int64_t bytes = sums_[to].stash - sums_[static_cast<std::size_t>(first)].stash;
    if (cuts_->kept_for_readers.empty()) return bytes;
    for (const int l : cuts_->crossing[to]) {
      const auto at = static_cast<std::size_t>(l);
      if (l < first || !cuts_->kept_for_readers[at] || cuts_->readers[at].front() < end) continue;
      bytes -= std::min(output_bytes_[at], stash_bytes_[at]);
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
    const GradientPeaks::Most most = gradients_.before_last(first, end);
    const GradientPeaks::Most last = gradients_.last(first, end);
    const std::int64_t freed = kept_[static_cast<std::size_t>(first)] + stash;
    const std::int64_t of_last = kept_[static_cast<std::size_t>(end)];
    return {std::max(most.unknown, last.unknown), std::max<std::int64_t>(0, most.known - freed),
            std::max({std::int64_t{0}, most.adding - freed, last.adding - of_last})};
  }
  // No less than the larger of working and gradients.
  std::int64_t works_on_at_most(int first, int end, std::int64_t stash) const {
    const GradientPeaks::Most most = gradients_.at_most(first, end);
    return std::max({std::int64_t{0}, most.unknown,
                     most.known - kept_[static_cast<std::size_t>(first)] - stash});
  }
  std::int64_t samples_ahead(int first, int end) const {
    if (!own_memory_) return 0;
    double most = 0;
    for (const auto& [layer, bytes] : cuts_->read) {
      if (layer >= first && layer < end) most = std::max(most, bytes * samples_);
    }
    return static_cast<std::int64_t>(most);
  }

  std::int64_t updating(int first, int end) const {
    return updating_ ? updating_->of(first, end) : 0;
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
  struct Sums {
    std::int64_t parameters = 0;
    std::int64_t stash = 0;
  };

  StageFootprint with_received(int first, int end) const;

  std::shared_ptr<const ModelCuts> cuts_;
  int samples_;
  int micro_batches_;
  bool own_memory_;
  std::vector<std::int64_t> stash_bytes_;
  std::vector<std::int64_t> output_bytes_;
  std::vector<Sums> sums_;          // of the layers before each
  std::vector<std::int64_t> kept_;  // stashes of the layers before each
  GradientPeaks gradients_;
  std::optional<RunMaxima> updating_;  // none where no update has any
};

// Those of every kind of device and size of call, each made when it is first asked for.
class FootprintTable {
 public:
  FootprintTable(const Cluster& cluster, const Profile& profile, int micro_batches,
                 Updates updates);
  const Footprints& of(int kind, int samples);  // of Cluster::kinds

 private:
  const Cluster& cluster_;
  const Profile& profile_;
  std::shared_ptr<const ModelCuts> cuts_;
  int micro_batches_;
  Updates updates_;
  std::map<std::pair<int, int>, Footprints> known_;
};

}  // namespace hetpipe
