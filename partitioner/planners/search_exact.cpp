// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>

#include "partitioner/planners/search_run.h"

namespace hetpipe {
namespace {

constexpr std::size_t kMostForExact = 4;
constexpr std::size_t kMostLayers = 6;

// A plan and samples/s that it cannot pass: every stage computes all of its minibatches one after
// the other, and a minibatch that passes through all stages is one of Nm (a micro-batch, before a
// flush, one of all of them).
struct Possible {
  Plan plan;
  double bound = 0;
};

class Enumeration {
 public:
  explicit Enumeration(SearchSpace& space)
      : space_(space),
        request_(space.row().request),
        devices_(request_.cluster.devices()),
        layers_(static_cast<int>(request_.profile->layers.size())) {}

  std::vector<Possible> all() {
    const int deepest = 2 * static_cast<int>(devices_.size());
    for (const Knobs& depth : space_.with_depth(space_.first_knobs(1), deepest)) {
      const int batch = space_.minibatch() / depth.micro_batches;
      if (space_.minibatch() % depth.micro_batches != 0) continue;
      costs_.clear();
      for (const DeviceName& device : devices_) {
        costs_.push_back(costs_on(request_.profile, request_.cluster.kind_of(device), batch));
      }
      knobs_ = depth;
      plan_ = blank_plan(request_);
      plan_.minibatch = space_.minibatch();
      used_.assign(devices_.size(), false);
      slowest_ = 0;
      add_worker(0);
    }
    return std::move(found_);
  }

 private:
  // Another virtual worker whose smallest device comes after that of the one before: each set of
  // virtual workers once.
  void add_worker(std::size_t smallest) {
    const auto count = static_cast<int>(plan_.virtual_workers.size());
    if (count > 0 && (!request_.virtual_workers || *request_.virtual_workers == count)) {
      for (const Knobs& knobs : space_.with_servers(knobs_, plan_)) {
        const double bound = slowest_ > 0 ? count * space_.minibatch() / slowest_
                                          : std::numeric_limits<double>::infinity();
        found_.push_back({space_.with_knobs(plan_, knobs), bound});
      }
    }
    for (std::size_t d = smallest; d < devices_.size(); ++d) {
      if (used_[d]) continue;
      plan_.virtual_workers.emplace_back();
      add_stage(d, 0, 0, 0);
      plan_.virtual_workers.pop_back();
    }
  }

  // Stages from layer `first` on; `has_smallest`: device `smallest` has its place.
  void add_stage(std::size_t smallest, int first, double longest, double sum) {
    const auto stages = static_cast<int>(plan_.virtual_workers.back().stages.size());
    if (stages == space_.max_stages() && first < layers_) return;
    if (first == layers_) {
      if (!used_[smallest]) return;
      const System& parts = space_.row().parts;
      double whole = 0;
      if (space_.chooses_in_flight()) {
        whole = sum / knobs_.in_flight;
      } else if (traits(parts.schedule).has_flush &&
                 traits(parts.schedule).backward != BackwardForm::split) {
        whole = sum / knobs_.micro_batches;
      }
      const double before = slowest_;
      slowest_ = std::max({slowest_, longest, whole});
      add_worker(smallest + 1);
      slowest_ = before;
      return;
    }
    for (std::size_t d = smallest; d < devices_.size(); ++d) {
      if (used_[d]) continue;
      used_[d] = true;
      double seconds = 0;
      for (int end = first + 1; end <= layers_; ++end) {
        const auto l = static_cast<std::size_t>(end - 1);
        seconds += knobs_.micro_batches * (costs_[d].forward[l] + costs_[d].backward[l]);
        PlanStage stage;
        stage.first_layer = first;
        stage.end_layer = end;
        stage.devices = {devices_[d]};
        plan_.virtual_workers.back().stages.push_back(stage);
        add_stage(smallest, end, std::max(longest, seconds), sum + seconds);
        plan_.virtual_workers.back().stages.pop_back();
      }
      used_[d] = false;
    }
  }

  SearchSpace& space_;
  const PlanRequest& request_;
  std::vector<DeviceName> devices_;
  int layers_;
  std::vector<LayerCosts> costs_;  // [device]
  Knobs knobs_;
  Plan plan_;
  std::vector<bool> used_;
  double slowest_ = 0;  // s per minibatch of the slowest virtual worker so far
  std::vector<Possible> found_;
};

}  // namespace

bool try_all_plans(SearchSpace& space, PlanScores& scores, FoundPlans& found) {
  const PlanRequest& request = space.row().request;
  if (request.cluster.devices().size() > kMostForExact ||
      request.profile->layers.size() > kMostLayers) {
    return false;
  }
  std::vector<Possible> possible = Enumeration(space).all();
  std::stable_sort(possible.begin(), possible.end(),
                   [](const Possible& a, const Possible& b) { return a.bound > b.bound; });
  for (const Possible& one : possible) {
    // What comes now is not within reach of the best, whatever its staleness.
    if (one.bound < found.best() * (1 - kWorthIt)) return true;
    if (scores.spent()) return false;
    found.add(one.plan, "search");
  }
  return true;
}

}  // namespace hetpipe
