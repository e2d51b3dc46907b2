// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "partitioner/schedule/wave_rules.h"
#include "runtime/pipeline/compute_weights.h"
#include "runtime/pipeline/rank_service.h"
#include "runtime/pipeline/running_statistics.h"
#include "runtime/pipeline/stage.h"
#include "runtime/pipeline/worker_place.h"

namespace hetpipe {

struct HeldPass : Pass {
  bool forwarded = false;
  bool backwarded = false;
};

// A loss is not finite: ends the run with the name of the layer whose numbers were the first not to
// be. Where they came in with the activations, the stage that sent them is asked, and ends the run
// in its own words.
class NonFiniteSearch {
 public:
  // `chunks`: the rank's stages. All outlive this.
  NonFiniteSearch(const WorkerPlace& place, const WaveRules& rules, std::vector<Stage*> chunks,
                  ComputeWeights& weights, RunningStatistics& statistics, RankService& service)
      : place_(place),
        rules_(rules),
        chunks_(std::move(chunks)),
        weights_(weights),
        statistics_(statistics),
        service_(service) {}

  // Of minibatch p; the pass is as it was computed with these weights.
  [[noreturn]] void fail(Minibatch p, const Stage& stage, const Pass& pass,
                         const StageWeights& weights);
  // The same, where what the pass did not keep has to be computed once more.
  [[noreturn]] void fail_again(Minibatch p, int chunk, int micro, Pass& pass);
  // This rank, or another replica of its stage, sent numbers that are not finite. Returns where its
  // own are. `passes`: of p, by chunk and micro-batch.
  void look_again(Minibatch p, std::vector<std::vector<HeldPass>> passes);

 private:
  ComputeWeights::Of compute_again(Minibatch p, int chunk, int micro, Pass& pass);

  const WorkerPlace& place_;
  const WaveRules& rules_;
  std::vector<Stage*> chunks_;
  ComputeWeights& weights_;
  RunningStatistics& statistics_;
  RankService& service_;
};

}  // namespace hetpipe
