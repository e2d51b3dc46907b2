// SPDX-License-Identifier: Apache-2.0
#include "partitioner/cost/footprints.h"

#include <algorithm>

namespace hetpipe {

RunMaxima::RunMaxima(std::vector<std::int64_t> values)
    : count_(values.size()), runs_(std::move(values)) {
  for (std::size_t span = 1; 2 * span <= count_; span *= 2) {
    const std::size_t below = runs_.size() - count_;
    for (std::size_t l = 0; l < count_; ++l) {
      const std::size_t other = std::min(l + span, count_ - 1);
      runs_.push_back(std::max(runs_[below + l], runs_[below + other]));
    }
  }
}

namespace {

std::vector<std::int64_t> running_sums(std::span<const std::int64_t> values) {
  std::vector<std::int64_t> sums{0};
  for (const std::int64_t value : values) sums.push_back(sums.back() + value);
  return sums;
}

template <typename BytesOf>
RunMaxima by_layer(std::size_t layers, const BytesOf& bytes_of) {
  std::vector<std::int64_t> values;
  for (std::size_t l = 0; l < layers; ++l) values.push_back(bytes_of(l));
  return RunMaxima(std::move(values));
}

// What bytes_of(l) adds to the stashes of the layers up to l; 0 where it adds nothing.
template <typename BytesOf>
RunMaxima peaks(std::span<const std::int64_t> kept, const BytesOf& bytes_of) {
  return by_layer(kept.size() - 1, [&](std::size_t l) {
    const std::int64_t bytes = bytes_of(l);
    return bytes > 0 ? bytes + kept[l + 1] : 0;
  });
}

}  // namespace

ModelCuts::ModelCuts(const Profile& profile)
    : readers(profile.layers.size()), crossing(profile.layers.size() + 1), parameters(1, 0) {
  const auto layers = static_cast<int>(profile.layers.size());
  const std::vector<std::int64_t> own = own_parameter_bytes(profile);
  tied = tied_weights(profile);
  for (int l = 0; l < layers; ++l) {
    const ProfileLayer& layer = profile.layers[static_cast<std::size_t>(l)];
    for (const int producer : layer.inputs)
      readers[static_cast<std::size_t>(producer)].push_back(l);
    if (layer.inputs.empty()) read.emplace_back(l, layer.input_bytes);
    of_layer.push_back(layer.parameter_bytes);
    parameters.push_back(parameters.back() + own[static_cast<std::size_t>(l)]);
    if (layer.kept_for_readers) kept_for_readers.resize(profile.layers.size(), false);
  }
  for (int l = 0; l < layers; ++l) {
    const auto at = static_cast<std::size_t>(l);
    if (!kept_for_readers.empty()) kept_for_readers[at] = profile.layers[at].kept_for_readers;
    if (readers[at].empty()) continue;
    for (int cut = l + 1; cut <= readers[at].back(); ++cut) {
      crossing[static_cast<std::size_t>(cut)].push_back(l);
    }
  }
}

Footprints::Footprints(const Profile& profile, std::shared_ptr<const ModelCuts> cuts,
                       const LayerCosts& costs, int samples, int micro_batches)
    : cuts_(std::move(cuts)),
      samples_(samples),
      micro_batches_(micro_batches),
      own_memory_(costs.own_memory),
      stash_bytes_(costs.stash_bytes),
      output_bytes_(costs.output_bytes),
      measured_(!costs.scratch_bytes.empty()),
      gradients_(gradient_bytes(profile, costs)),
      kept_(running_sums(stash_bytes_)),
      unknown_(by_layer(stash_bytes_.size(),
                        [&](std::size_t l) {
                          return measured_ && gradients_.inside[l] > 0 ? 0 : gradients_.anywhere[l];
                        })),
      known_(peaks(kept_, [&](std::size_t l) { return gradients_.inside[l]; })),
      adding_(peaks(kept_, [&](std::size_t l) {
        const std::int64_t parameters = cuts_->of_layer[l];
        if (parameters == 0) return std::int64_t{0};
        return std::max(gradients_.inside[l], gradients_.anywhere[l]) + parameters;
      })) {
  if (!costs.update_bytes.empty()) updating_.emplace(costs.update_bytes);
  std::int64_t stash = 0;
  for (std::size_t l = 0; l <= stash_bytes_.size(); ++l) {
    sums_.push_back({cuts_->parameters[l], stash});
    if (l == stash_bytes_.size()) break;
    const bool unread =
        !cuts_->kept_for_readers.empty() && cuts_->kept_for_readers[l] && cuts_->readers[l].empty();
    stash += stash_bytes_[l] - (unread ? std::min(output_bytes_[l], stash_bytes_[l]) : 0);
  }
}

std::int64_t Footprints::adding(int first, int end, std::int64_t stash) const {
  const auto from = static_cast<std::size_t>(first);
  const auto last = static_cast<std::size_t>(end - 1);
  std::int64_t most = std::max<std::int64_t>(0, inside(adding_, first, end, stash));
  if (const std::int64_t parameters = cuts_->of_layer[last]; parameters > 0) {
    most = std::max(most, (from < last ? gradients_.last : gradients_.alone)[last] + parameters);
  }
  if (const std::int64_t parameters = cuts_->of_layer[from]; from < last && parameters > 0) {
    const std::int64_t there = std::max(gradients_.first[from], gradients_.anywhere[from]);
    most = std::max(most, there + parameters - freed_before(first, stash));
  }
  return most;
}

StageFootprint Footprints::alone(int first, int end) const {
  StageFootprint footprint;
  footprint.parameters = parameters(first, end);
  footprint.uses = uses(first, end);
  footprint.foreign = foreign(first, end);
  footprint.working = working(first, end);
  footprint.updating = updating(first, end);
  footprint.stash_once = stash(first, end);
  footprint.stash = micro_batches_ * footprint.stash_once;
  footprint.gradients = gradients(first, end, footprint.stash_once);
  footprint.adding = adding(first, end, footprint.stash_once);
  double read = 0;
  for (const auto& [layer, bytes] : cuts_->read) {
    if (layer >= first && layer < end) read += bytes * (samples_ * micro_batches_);
  }
  footprint.samples = static_cast<std::int64_t>(read);
  footprint.samples_ahead = samples_ahead(first, end);
  return footprint;
}

StageFootprint Footprints::with_received(int first, int end) const {
  StageFootprint footprint = alone(first, end);
  for (const int producer : cuts_->crossing[static_cast<std::size_t>(first)]) {
    const auto at = static_cast<std::size_t>(producer);
    const auto& readers = cuts_->readers[at];
    const auto reader = std::lower_bound(readers.begin(), readers.end(), first);
    if (reader != readers.end() && *reader < end) footprint.received_once += output_bytes_[at];
  }
  footprint.received = micro_batches_ * footprint.received_once;
  return footprint;
}

StageFootprint Footprints::least(int first, int end) const {
  StageFootprint footprint = with_received(first, end);
  for (const int producer : cuts_->crossing[static_cast<std::size_t>(end)]) {
    if (producer >= first) footprint.sent += output_bytes_[static_cast<std::size_t>(producer)];
  }
  footprint.sent *= micro_batches_;
  for (const TiedWeight& tied : cuts_->tied) {
    if (!tied.used_from(end) || !tied.held_by(first, end)) continue;
    if (tied.owner >= first) footprint.tied_sent += tied.bytes;
    footprint.tied_received += tied.bytes;
  }
  return footprint;
}

StageFootprint Footprints::of(std::span<const int> stage_end, StageId stage) const {
  const int first = stage.value == 0 ? 0 : stage_end[static_cast<std::size_t>(stage.value - 1)];
  const int end = stage_end[static_cast<std::size_t>(stage.value)];
  StageFootprint footprint = with_received(first, end);
  for (const int producer : cuts_->crossing[static_cast<std::size_t>(end)]) {
    if (producer < first) continue;
    const auto& readers = cuts_->readers[static_cast<std::size_t>(producer)];
    int behind = end;  // one past the last layer of the stages counted
    for (const int reader : readers) {
      if (reader < behind) continue;
      footprint.sent += output_bytes_[static_cast<std::size_t>(producer)];
      behind = *std::upper_bound(stage_end.begin() + stage.value, stage_end.end(), reader);
    }
  }
  footprint.sent *= micro_batches_;
  for (const TiedWeight& tied : cuts_->tied) {
    if (!tied.used_from(end) || !tied.held_by(first, end)) continue;
    footprint.tied_received += tied.bytes;
    if (tied.owner < first) continue;
    const auto stages = static_cast<std::int64_t>(stages_of(tied, stage_end).size());
    footprint.tied_sent += (stages - 1) * tied.bytes;
  }
  return footprint;
}

void Footprints::add_late(StageFootprint& footprint, int first, int end) const {
  add_late_parts(footprint, cuts_->of_layer, output_bytes_, stash_bytes_, first, end, [&](int l) {
    const auto& readers = cuts_->readers[static_cast<std::size_t>(l)];
    return !readers.empty() && readers.back() >= end;
  });
}

FootprintTable::FootprintTable(const Cluster& cluster, const Profile& profile, int micro_batches,
                               Updates updates)
    : cluster_(cluster),
      profile_(profile),
      cuts_(std::make_shared<const ModelCuts>(profile)),
      micro_batches_(micro_batches),
      updates_(updates) {}

const Footprints& FootprintTable::of(int kind, int samples) {
  const auto at = known_.find({kind, samples});
  if (at != known_.end()) return at->second;
  const LayerCosts costs =
      costs_on(profile_, cluster_.kinds[static_cast<std::size_t>(kind)], samples, updates_);
  return known_.try_emplace({kind, samples}, profile_, cuts_, costs, samples, micro_batches_)
      .first->second;
}

}  // namespace hetpipe
