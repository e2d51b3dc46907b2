// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/dapple_bound.h"

#include <algorithm>
#include <limits>

#include "partitioner/planners/limits.h"

namespace hetpipe {
namespace {

double both(const PipelineBlock& block) { return block.forward + block.backward; }

}  // namespace

DappleBounds::DappleBounds(const DappleModel& model, const DapplePool& pool) : pool_(pool) {
  const auto layers = static_cast<std::size_t>(model.layers());
  const std::size_t kinds = model.forward.size();
  const auto seconds = [&](std::size_t k, std::size_t l) {
    return model.forward[k][l + 1] - model.forward[k][l] + model.backward[k][l + 1] -
           model.backward[k][l];
  };
  reference_.assign(1, 0);
  slowness_.assign(kinds, std::numeric_limits<double>::infinity());
  for (std::size_t l = 0; l < layers; ++l) {
    double fastest = std::numeric_limits<double>::infinity();
    for (std::size_t k = 0; k < kinds; ++k) fastest = std::min(fastest, seconds(k, l));
    reference_.push_back(reference_.back() + fastest);
    for (std::size_t k = 0; k < kinds && fastest > 0; ++k) {
      slowness_[k] = std::min(slowness_[k], seconds(k, l) / fastest);
    }
  }
  for (std::size_t k = 0; k < kinds; ++k) {
    seconds_.emplace_back();
    for (std::size_t l = 0; l <= layers; ++l) {
      seconds_[k].push_back(model.forward[k][l] + model.backward[k][l]);
    }
  }
  for (double& slowness : slowness_) {
    if (slowness == std::numeric_limits<double>::infinity()) slowness = 1;
  }
}

DappleDevices DappleBounds::set_of(std::vector<DappleStage::Run> runs) const {
  DappleDevices devices{std::move(runs), std::vector<double>(slowness_.size(), 0), 0, 0};
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

double DappleBounds::even_seconds(int first, int end, const DappleDevices& devices) const {
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

double DappleBounds::rest_seconds(int layer, const DappleDevices& rest) const {
  return (reference_.back() - reference_[static_cast<std::size_t>(layer)]) / rest.speed;
}

DappleBounds::Latency DappleBounds::of(const std::vector<PipelineBlock>& blocks, double left,
                                       int micro_batches) {
  const double repeats = micro_batches - 1;
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
  double after = micro_batches * left + sums_.back().first + sums_.back().second;
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

}  // namespace hetpipe
