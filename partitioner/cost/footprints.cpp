// SPDX-License-Identifier: Apache-2.0
#include "partitioner/cost/footprints.h"

#include <algorithm>

namespace hetpipe {

namespace {

std::vector<std::int64_t> running_sums(std::span<const std::int64_t> values) {
  std::vector<std::int64_t> sums{0};
  for (const std::int64_t value : values) sums.push_back(sums.back() + value);
  return sums;
}

}  // namespace

ModelCuts::ModelCuts(const Profile& profile)
    : readers(profile.layers.size()),
      crossing(profile.layers.size() + 1),
      next_reader(crossing.size()),
      parameters(1, 0) {
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
    auto reader = readers[at].begin();
    for (int cut = l + 1; cut <= readers[at].back(); ++cut) {
      while (*reader < cut) ++reader;
      crossing[static_cast<std::size_t>(cut)].push_back(l);
      next_reader[static_cast<std::size_t>(cut)].push_back(*reader);
    }
  }
}

LayerFootprints::LayerFootprints(const Profile& profile, std::shared_ptr<const ModelCuts> of_model,
                                 const LayerCosts& costs, int samples_of_call)
    : cuts(std::move(of_model)),
      samples(samples_of_call),
      own_memory(costs.own_memory),
      stash_bytes(costs.stash_bytes),
      output_bytes(costs.output_bytes),
      kept(running_sums(stash_bytes)),
      gradients(profile, costs, kept, cuts->of_layer) {
  if (!costs.update_bytes.empty()) updating.emplace(costs.update_bytes);
  std::int64_t stash = 0;
  for (std::size_t l = 0; l <= stash_bytes.size(); ++l) {
    sums.push_back({cuts->parameters[l], stash});
    if (l == stash_bytes.size()) break;
    const bool unread =
        !cuts->kept_for_readers.empty() && cuts->kept_for_readers[l] && cuts->readers[l].empty();
    stash += stash_bytes[l] - (unread ? std::min(output_bytes[l], stash_bytes[l]) : 0);
  }
}

StageFootprint Footprints::alone(int first, int end) const {
  StageFootprint footprint;
  footprint.parameters = parameters(first, end);
  footprint.uses = uses(first, end);
  footprint.foreign = foreign(first, end);
  footprint.updating = updating(first, end);
  footprint.stash_once = stash(first, end);
  footprint.stash = micro_batches_ * footprint.stash_once;
  const Backwards backwards = this->backwards(first, end, footprint.stash_once);
  footprint.working = backwards.working;
  footprint.gradients = backwards.gradients;
  footprint.adding = backwards.adding;
  double read = 0;
  for (const auto& [layer, bytes] : of_->cuts->read) {
    if (layer >= first && layer < end) read += bytes * (of_->samples * micro_batches_);
  }
  footprint.samples = static_cast<std::int64_t>(read);
  footprint.samples_ahead = samples_ahead(first, end);
  return footprint;
}

StageFootprint Footprints::with_received(int first, int end) const {
  StageFootprint footprint = alone(first, end);
  for (const int producer : of_->cuts->crossing[static_cast<std::size_t>(first)]) {
    const auto at = static_cast<std::size_t>(producer);
    const auto& readers = of_->cuts->readers[at];
    const auto reader = std::lower_bound(readers.begin(), readers.end(), first);
    if (reader != readers.end() && *reader < end) footprint.received_once += of_->output_bytes[at];
  }
  footprint.received = micro_batches_ * footprint.received_once;
  return footprint;
}

StageFootprint Footprints::least(int first, int end) const {
  StageFootprint footprint = with_received(first, end);
  for (const int producer : of_->cuts->crossing[static_cast<std::size_t>(end)]) {
    if (producer >= first) footprint.sent += of_->output_bytes[static_cast<std::size_t>(producer)];
  }
  footprint.sent *= micro_batches_;
  for (const TiedWeight& tied : of_->cuts->tied) {
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
  for (const int producer : of_->cuts->crossing[static_cast<std::size_t>(end)]) {
    if (producer < first) continue;
    const auto& readers = of_->cuts->readers[static_cast<std::size_t>(producer)];
    int behind = end;  // one past the last layer of the stages counted
    for (const int reader : readers) {
      if (reader < behind) continue;
      footprint.sent += of_->output_bytes[static_cast<std::size_t>(producer)];
      behind = *std::upper_bound(stage_end.begin() + stage.value, stage_end.end(), reader);
    }
  }
  footprint.sent *= micro_batches_;
  for (const TiedWeight& tied : of_->cuts->tied) {
    if (!tied.used_from(end) || !tied.held_by(first, end)) continue;
    footprint.tied_received += tied.bytes;
    if (tied.owner < first) continue;
    const auto stages = static_cast<std::int64_t>(stages_of(tied, stage_end).size());
    footprint.tied_sent += (stages - 1) * tied.bytes;
  }
  return footprint;
}

void Footprints::add_late(StageFootprint& footprint, int first, int end) const {
  add_late_parts(footprint, of_->gradients.of_layers(), of_->cuts->of_layer, of_->output_bytes,
                 of_->stash_bytes, first, end, [&](int l) {
                   const auto& readers = of_->cuts->readers[static_cast<std::size_t>(l)];
                   return !readers.empty() && readers.back() >= end;
                 });
}

}  // namespace hetpipe
