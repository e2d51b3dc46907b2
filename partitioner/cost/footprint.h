// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "partitioner/profile/profile.h"

// What a stage's layers bring in bytes, before anything is said of how they run.
namespace hetpipe {

class GradientBytes;  // gradient_bytes.h

// What the ledger (memory.h) counts, in bytes; everything but the parameters per micro-batch or,
// where one action computes a whole minibatch, per minibatch. Of each GPU where a device is a group
// of GPUs: profiles give parameters and stashes per GPU, outputs whole.
struct StageFootprint {
  std::int64_t parameters = 0;     // own ones: tied weights where their owner is
  std::int64_t stash = 0;          // kept from forward to backward
  std::int64_t received = 0;       // activations from earlier stages
  std::int64_t sent = 0;           // activations to later stages; once per receiving stage
  std::int64_t working = 0;        // GradientBytes::OfLayer::unknown of one layer of which
                                   // no more is known, the most
  std::int64_t samples = 0;        // what its layers read of the samples themselves
  std::int64_t adding = 0;         // what a layer's backward works on and the gradient of its
                                   // parameters, to be added to another's, beyond what those
                                   // of later layers have freed of the stash; the most
  std::int64_t received_once = 0;  // of what is received, for one micro-batch
  std::int64_t stash_once = 0;     // of the stash, for one micro-batch
  std::int64_t waiting = 0;        // gradients of one micro-batch that its W reads, but what later
                                   // stages sent
  std::int64_t freed_early = 0;    // of stash_once, by B: what layers without parameters stashed
                                   // beside their outputs
  std::int64_t late_adding = 0;  // of the parameters of a layer, beyond what W of the layers behind
                                 // it has freed of the micro-batch by then; the most
  // Of tied weights (partitioner/profile/tied.h):
  std::int64_t uses = 0;     // parts of their gradients that are made here, by layers that use them
  std::int64_t foreign = 0;  // weights whose owner is in an earlier stage
  std::int64_t tied_sent = 0;      // weights that later stages use; once per such stage
  std::int64_t tied_received = 0;  // gradients that come from a later stage
  std::int64_t updating = 0;  // scratch of one layer's update, the most (LayerCosts::update_bytes)
  // Of the samples, for one micro-batch, where they come to the device ahead of it.
  std::int64_t samples_ahead = 0;
  // Of one layer of which more is known, beyond what the backwards of later ones have freed of the
  // stash, the most.
  std::int64_t gradients = 0;
  // Where W is apart, of one layer, the most: what its B works on and the gradients that wait by
  // then, beyond what the layers behind it have freed early. 0: not known.
  std::int64_t late_working = 0;
  bool operator==(const StageFootprint&) const = default;
};

// Stage `stage` of the cut `stage_end` (one past the last layer, per stage). `costs` are those of
// its device at the micro-batch size. Its samples are the caller's.
StageFootprint stage_footprint(const Profile& profile, const LayerCosts& costs,
                               std::span<const int> stage_end, StageId stage, int micro_batches);

// Fills what a stage of the layers [first, end) brings where W is apart from B. `sent`: whether
// later stages read a layer's output.
void add_late_parts(StageFootprint& footprint, const GradientBytes& gradients,
                    std::span<const std::int64_t> parameter_bytes,
                    std::span<const std::int64_t> output_bytes,
                    std::span<const std::int64_t> stash_bytes, int first, int end,
                    const std::function<bool(int layer)>& sent);

}  // namespace hetpipe
