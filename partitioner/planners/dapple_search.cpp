// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/dapple_search.h"

#include <algorithm>
#include <array>
#include <map>

#include "base/error.h"

namespace hetpipe {
namespace {

constexpr double kEqual = 1 + 1e-12;
constexpr int kBeam = 4;
constexpr int kMostPriced = 400'000;      // stages, with a beam
constexpr int kMostPricedWhole = 10'000;  // stages, of a quick search without one
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

double both(const PipelineBlock& block) { return block.forward + block.backward; }

class Search {
 public:
  Search(const DappleModel& model, const DapplePool& pool, const DappleRequest& request,
         double give_up_at, int beam, int most_priced)
      : model_(model),
        pool_(pool),
        request_(request),
        layers_(model.layers()),
        beam_(beam),
        most_priced_(most_priced) {
    ensure(layers_ > 0 && pool.devices() % request.unit == 0, "devices come in whole units");
    best_.seconds = give_up_at;
    reference();
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
  struct Devices {
    std::vector<DappleStage::Run> runs;
    std::vector<double> of_kind;  // [kind], how many
    int count = 0;
    double speed = 0;  // in devices as fast as the fastest
  };

  void extend(const State& state, std::vector<Partial>& partials) {
    std::erase_if(partials, [&](const auto& p) { return hopeless(p.blocks, p.left, p.rank); });
    const int free = pool_.devices() - state.devices;
    for (int need = request_.unit;
         need < free && need <= request_.most_replicas && !partials.empty();
         need += request_.unit) {
      std::vector<std::vector<DappleStage::Run>> tried;
      for (const DevicePolicy policy : kPolicies) {
        const Devices devices = set_of(next_devices(pool_, state.used, need, policy));
        if (std::find(tried.begin(), tried.end(), devices.runs) != tried.end()) continue;
        tried.push_back(devices.runs);
        State next = state;
        for (const auto& run : devices.runs) {
          next.used[static_cast<std::size_t>(run.node)] += run.count;
        }
        next.devices += need;
        const Devices rest = rest_of(next.used);
        for (const Partial& partial : partials) extend(next, partial, state.layer, devices, rest);
      }
    }
  }

  // By one stage from layer `first` on, up to every layer but the last.
  void extend(State& next, const Partial& partial, int first, const Devices& devices,
              const Devices& rest) {
    Partial longer = partial;
    longer.stages.push_back({first, first, devices.runs, false});
    for (int end = first + 1; end < layers_; ++end) {
      // An even split is the least that the stage and those after it can take.
      const double even = even_seconds(first, end, devices);
      const double left = rest_seconds(end, rest);
      if (request_.micro_batches * even * kEqual >= best_.seconds) break;
      if (request_.micro_batches * left * kEqual >= best_.seconds) continue;
      longer.left = left;
      longer.blocks.resize(partial.blocks.size());
      longer.blocks.push_back({0, even, 0});
      if (bounds(longer.blocks, left).proven * kEqual >= best_.seconds) continue;
      if (priced_ >= most_priced_) {
        best_.exact = false;
        return;
      }
      ++priced_;
      longer.stages.back().end_layer = end;
      const auto blocks = dapple_blocks(model_, pool_, last_two(longer.stages));
      longer.blocks.back() = blocks.back();
      if (blocks.size() > 1) longer.blocks.insert(longer.blocks.end() - 1, blocks[1]);
      longer.rank = bounds(longer.blocks, left).likely;
      if (hopeless(longer.blocks, left, longer.rank)) continue;
      next.layer = end;
      complete(longer, rest, end);
      if (rest.count > request_.unit && end + 1 < layers_) keep(next, longer);
    }
  }

  // Proven, or (with a beam) likely.
  bool hopeless(const std::vector<PipelineBlock>& blocks, double left, double rank) {
    if (bounds(blocks, left).proven * kEqual >= best_.seconds) return true;
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
  void complete(const Partial& partial, const Devices& rest, int layer) {
    if (rest.count > request_.most_replicas ||
        request_.micro_batches * even_seconds(layer, layers_, rest) * kEqual >= best_.seconds) {
      return;
    }
    std::vector<DappleStage> stages = partial.stages;
    stages.push_back({layer, layers_, rest.runs, false});
    // Re-computation first: a longer backward behind the pivot hides more of an all-reduce, so that
    // the latency without it says nothing.
    if (!settle_memory(model_, pool_, request_, stages)) return;
    const double seconds = latency(stages);
    if (seconds * kEqual >= best_.seconds) return;
    best_.seconds = seconds;
    best_.stages = std::move(stages);
  }

  double latency(std::span<const DappleStage> stages) const {
    return dapple_latency(dapple_blocks(model_, pool_, stages), request_.micro_batches).total();
  }

  // No plan that begins with these blocks, and whose slowest later block takes at least `left`, is
  // faster; nor does it become so when its backwards grow (re-computation). With x = F + B, the
  // pivot's x is as large as that of any block behind it, and T_w + T_e is at least the sum of x up
  // to the pivot, and at least AR_s - (sum of B before s) more than that, for s up to the pivot.
  // Where the pivot Q comes later, l1 <= l2 for block s says (M-1) x_Q + sum over s<t<Q of x_t >=
  // (M-1) x_s.
  // The likely bound leaves out pivots among these blocks that a later block outlasts already.
  struct Bounds {
    double proven = 0;
    double likely = 0;
  };
  Bounds bounds(const std::vector<PipelineBlock>& blocks, double left) {
    const double repeats = request_.micro_batches - 1;
    sums_.assign(1, {0, 0});
    double backward = 0;
    for (const PipelineBlock& block : blocks) {
      sums_.push_back({sums_.back().first + both(block),
                       std::max(sums_.back().second, block.all_reduce - backward)});
      backward += block.backward;
    }
    double later = left;  // the largest x behind a block
    double within = std::numeric_limits<double>::infinity();
    double likely = within;
    double after = request_.micro_batches * left + sums_.back().first + sums_.back().second;
    for (std::size_t s = blocks.size(); s-- > 0;) {
      const double x = both(blocks[s]);
      const auto& [sum, extra] = sums_[s + 1];
      if (x * kEqual >= later) likely = std::min(likely, repeats * x + sum + extra);
      later = std::max(later, x);
      within = std::min(within, repeats * later + sum + extra);
      after = std::max(after, repeats * x + sum);
    }
    return {std::min(within, after), std::min(likely, after)};
  }

  Devices set_of(std::vector<DappleStage::Run> runs) const {
    Devices devices{std::move(runs), std::vector<double>(model_.forward.size(), 0), 0, 0};
    for (const auto& run : devices.runs) {
      for (int d = run.begin; d < run.begin + run.count; ++d) {
        const auto kind = static_cast<std::size_t>(
            pool_.nodes[static_cast<std::size_t>(run.node)][static_cast<std::size_t>(d)]);
        ++devices.of_kind[kind];
        devices.speed += 1 / slowness_[kind];
        ++devices.count;
      }
    }
    return devices;
  }

  Devices rest_of(const Used& used) const {
    std::vector<DappleStage::Run> runs;
    for (std::size_t n = 0; n < used.size(); ++n) {
      const int free = static_cast<int>(pool_.nodes[n].size()) - used[n];
      if (free > 0) runs.push_back({static_cast<int>(n), used[n], free});
    }
    return set_of(std::move(runs));
  }

  // F + B of a stage is no less than its work spread evenly, in proportion to speed.
  double even_seconds(int first, int end, const Devices& devices) const {
    double speed = 0;
    for (std::size_t k = 0; k < devices.of_kind.size(); ++k) {
      if (devices.of_kind[k] == 0) continue;
      const double seconds =
          seconds_[k][static_cast<std::size_t>(end)] - seconds_[k][static_cast<std::size_t>(first)];
      if (seconds <= 0) return 0;
      speed += devices.of_kind[k] / seconds;
    }
    return 1 / speed;
  }

  // The slowest of the stages that hold the rest is no faster than the rest spread evenly over
  // devices that are as fast as they can be: layer l takes kind k at least slowness_[k] times what
  // it takes the kind that is fastest for it.
  double rest_seconds(int layer, const Devices& rest) const {
    return (reference_.back() - reference_[static_cast<std::size_t>(layer)]) / rest.speed;
  }

  void reference() {
    const std::size_t kinds = model_.forward.size();
    const auto seconds = [&](std::size_t k, std::size_t l) {
      return model_.forward[k][l + 1] - model_.forward[k][l] + model_.backward[k][l + 1] -
             model_.backward[k][l];
    };
    reference_.assign(1, 0);
    slowness_.assign(kinds, std::numeric_limits<double>::infinity());
    for (std::size_t l = 0; l < static_cast<std::size_t>(layers_); ++l) {
      double fastest = std::numeric_limits<double>::infinity();
      for (std::size_t k = 0; k < kinds; ++k) fastest = std::min(fastest, seconds(k, l));
      reference_.push_back(reference_.back() + fastest);
      for (std::size_t k = 0; k < kinds && fastest > 0; ++k) {
        slowness_[k] = std::min(slowness_[k], seconds(k, l) / fastest);
      }
    }
    for (std::size_t k = 0; k < kinds; ++k) {
      seconds_.emplace_back();
      for (std::size_t l = 0; l <= static_cast<std::size_t>(layers_); ++l) {
        seconds_[k].push_back(model_.forward[k][l] + model_.backward[k][l]);
      }
    }
    for (double& slowness : slowness_) {
      if (slowness == std::numeric_limits<double>::infinity()) slowness = 1;
    }
  }

  const DappleModel& model_;
  const DapplePool& pool_;
  const DappleRequest& request_;
  int layers_;
  int beam_;  // 0: no limit, nothing but proven bounds
  int most_priced_;
  int priced_ = 0;
  RunningSum reference_;             // seconds on the kind that is fastest for each layer
  std::vector<double> slowness_;     // [kind]
  std::vector<RunningSum> seconds_;  // [kind], forward + backward
  std::map<State, std::vector<Partial>> states_;
  DapplePlan best_;
  std::vector<std::pair<double, double>> sums_;  // bound's own
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
  std::vector<Pass> passes{{1, kMostPriced}};
  if (request.effort == Effort::quick) {
    passes.push_back({0, kMostPricedWhole});
    passes.push_back({kBeam, kMostPriced});
  } else {
    passes.push_back({0, kNoLimit});
  }
  DapplePlan best;
  for (const Pass& pass : passes) {
    const double give_up_at = std::min(request.give_up_at, best.seconds);
    DapplePlan found = Search(model, pool, request, give_up_at, pass.beam, pass.most_priced).run();
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
