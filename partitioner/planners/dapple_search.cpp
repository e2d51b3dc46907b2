// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/dapple_search.h"

#include <algorithm>
#include <array>
#include <map>

#include "base/error.h"
#include "partitioner/planners/dapple_bound.h"
#include "partitioner/planners/limits.h"

namespace hetpipe {
namespace {

constexpr int kBeam = 2;
constexpr int kMostPriced = 400'000;   // stages, with a beam
constexpr int kMostGlanced = 20'000;   // stages, of a glance
constexpr int kMostPricedWhole = 300;  // stages, of a quick search without one
constexpr int kNoLimit = std::numeric_limits<int>::max();
constexpr std::array kPolicies{DevicePolicy::fresh_first, DevicePolicy::append_first,
                               DevicePolicy::scatter_first};

// Stages planned so far, without the last one.
struct Partial {
  std::vector<DappleStage> stages;
  std::vector<PipelineBlock> blocks;  // of these stages and the transfers between them
  double left = 0;                    // s, the least of the slowest later stage
  double rank = 0;                    // s, what the finished plan may take
};

class DappleSearch {
 public:
  DappleSearch(const DappleModel& model, const DapplePool& pool, const DappleRequest& request,
               double give_up_at, int beam, int most_priced)
      : model_(model),
        pool_(pool),
        request_(request),
        layers_(model.layers()),
        beam_(beam),
        most_priced_(most_priced),
        bounds_(model, pool) {
    ensure(layers_ > 0 && pool.devices() % request.unit == 0, "devices come in whole units");
    best_.seconds = give_up_at;
  }

  DapplePlan run() {
    const Used none(pool_.nodes.size(), 0);
    complete({}, rest_of(none), 0);
    states_[{0, 0, none}].push_back({});
    // In order of devices used, then layers planned: every state is whole when its turn comes.
    for (auto at = states_.begin(); at != states_.end(); at = states_.erase(at)) {
      extend(at->first, at->second);
    }
    if (best_.stages.empty()) best_.seconds = std::numeric_limits<double>::infinity();
    return best_;
  }

 private:
  using Used = std::vector<int>;  // [node], its first devices
  struct State {
    int devices = 0;
    int layer = 0;  // the next one
    Used used;
    auto operator<=>(const State&) const = default;
  };

  void extend(const State& state, std::vector<Partial>& partials) {
    std::erase_if(partials, [&](const auto& p) { return hopeless(p.blocks, p.left, p.rank); });
    const int free = pool_.devices() - state.devices;
    for (int need = request_.unit;
         need < free && need <= request_.most_replicas && !partials.empty();
         need += request_.unit) {
      std::vector<std::vector<DappleStage::Run>> tried;
      for (const DevicePolicy policy : kPolicies) {
        const DappleDevices devices = bounds_.set_of(next_devices(pool_, state.used, need, policy));
        if (std::find(tried.begin(), tried.end(), devices.runs) != tried.end()) continue;
        tried.push_back(devices.runs);
        State next = state;
        for (const auto& run : devices.runs) {
          next.used[static_cast<std::size_t>(run.node)] += run.count;
        }
        next.devices += need;
        const DappleDevices rest = rest_of(next.used);
        for (const Partial& partial : partials) extend(next, partial, state.layer, devices, rest);
      }
    }
  }

  // By one stage from layer `first` on, up to every layer but the last.
  void extend(State& next, const Partial& partial, int first, const DappleDevices& devices,
              const DappleDevices& rest) {
    Partial longer = partial;
    longer.stages.push_back({first, first, devices.runs, false});
    for (int end = first + 1; end < layers_; ++end) {
      if (!request_.cuts.empty() && !request_.cuts[static_cast<std::size_t>(end)]) continue;
      // An even split is the least that the stage and those after it can take.
      const double even = bounds_.even_seconds(first, end, devices);
      const double left = bounds_.rest_seconds(end, rest);
      if (request_.micro_batches * even * kEqual >= best_.seconds) break;
      if (request_.micro_batches * left * kEqual >= best_.seconds) continue;
      longer.left = left;
      longer.blocks.resize(partial.blocks.size());
      longer.blocks.push_back({0, even, 0});
      if (bounds_.of(longer.blocks, left, request_.micro_batches).proven * kEqual >= best_.seconds)
        continue;
      if (priced_ >= most_priced_) {
        best_.exact = false;
        return;
      }
      ++priced_;
      longer.stages.back().end_layer = end;
      const auto blocks = dapple_blocks(model_, pool_, last_two(longer.stages));
      longer.blocks.back() = blocks.back();
      if (blocks.size() > 1) longer.blocks.insert(longer.blocks.end() - 1, blocks[1]);
      longer.rank = bounds_.of(longer.blocks, left, request_.micro_batches).likely;
      if (hopeless(longer.blocks, left, longer.rank)) continue;
      next.layer = end;
      complete(longer, rest, end);
      if (rest.count > request_.unit && end + 1 < layers_) keep(next, longer);
    }
  }

  // Proven, or (with a beam) likely.
  bool hopeless(const std::vector<PipelineBlock>& blocks, double left, double rank) {
    if (bounds_.of(blocks, left, request_.micro_batches).proven * kEqual >= best_.seconds)
      return true;
    if (beam_ == 0 || rank * kEqual < best_.seconds) return false;
    best_.exact = false;
    return true;
  }

  // The beam's best; the worst one makes room.
  void keep(const State& state, const Partial& partial) {
    std::vector<Partial>& beam = states_[state];
    if (beam_ == 0 || static_cast<int>(beam.size()) < beam_) {
      beam.push_back(partial);
      return;
    }
    best_.exact = false;
    const auto worst = std::max_element(
        beam.begin(), beam.end(), [](const auto& x, const auto& y) { return x.rank < y.rank; });
    if (partial.rank < worst->rank) *worst = partial;
  }

  static std::span<const DappleStage> last_two(const std::vector<DappleStage>& stages) {
    return std::span(stages).last(std::min<std::size_t>(2, stages.size()));
  }

  // The remaining layers on the remaining devices.
  void complete(const Partial& partial, const DappleDevices& rest, int layer) {
    if (rest.count > request_.most_replicas ||
        request_.micro_batches * bounds_.even_seconds(layer, layers_, rest) * kEqual >=
            best_.seconds) {
      return;
    }
    std::vector<DappleStage> stages = partial.stages;
    stages.push_back({layer, layers_, rest.runs, false});
    // Recomputation first: a longer backward behind the pivot hides more of an all-reduce, so that
    // the latency without it says nothing.
    if (request_.settle_memory && !request_.settle_memory(stages)) return;
    const double seconds = latency(stages);
    if (seconds * kEqual >= best_.seconds) return;
    best_.seconds = seconds;
    best_.stages = std::move(stages);
  }

  double latency(std::span<const DappleStage> stages) const {
    return dapple_latency(dapple_blocks(model_, pool_, stages), request_.micro_batches).total();
  }

  DappleDevices rest_of(const Used& used) const {
    std::vector<DappleStage::Run> runs;
    for (std::size_t n = 0; n < used.size(); ++n) {
      const int free = static_cast<int>(pool_.nodes[n].size()) - used[n];
      if (free > 0) runs.push_back({static_cast<int>(n), used[n], free});
    }
    return bounds_.set_of(std::move(runs));
  }

  const DappleModel& model_;
  const DapplePool& pool_;
  const DappleRequest& request_;
  int layers_;
  int beam_;  // 0: no limit, nothing but proven bounds
  int most_priced_;
  int priced_ = 0;
  DappleBounds bounds_;
  std::map<State, std::vector<Partial>> states_;
  DapplePlan best_;
};

}  // namespace

DapplePlan dapple_search(const DappleModel& model, const DapplePool& pool,
                         const DappleRequest& request) {
  struct Pass {
    int beam;
    int most_priced;
  };
  // A narrow beam first: what it finds cuts the work of the next. Small cases are then searched
  // whole.
  std::vector<Pass> passes{{1, request.effort == Effort::glance ? kMostGlanced : kMostPriced}};
  if (request.effort == Effort::quick) {
    passes.push_back({0, kMostPricedWhole});
    passes.push_back({kBeam, kMostPriced});
  } else if (request.effort == Effort::exhaustive) {
    passes.push_back({0, kNoLimit});
  }
  DapplePlan best;
  for (const Pass& pass : passes) {
    const double give_up_at = std::min(request.give_up_at, best.seconds);
    DapplePlan found =
        DappleSearch(model, pool, request, give_up_at, pass.beam, pass.most_priced).run();
    if (found.stages.empty()) {
      best.exact = found.exact;
    } else {
      best = std::move(found);
    }
    if (best.exact) return best;
  }
  return best;
}

}  // namespace hetpipe
