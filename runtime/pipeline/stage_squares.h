// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "runtime/pipeline/optimizer.h"
#include "runtime/pipeline/pace.h"
#include "runtime/pipeline/rank_service.h"
#include "runtime/pipeline/stage.h"
#include "runtime/pipeline/worker_place.h"

namespace hetpipe {

// Squares of a gradient's parameters, by stage, for who needs its norm or whether it is finite.
// Every rank learns the squares of all stages and adds them up alike; replicas of a stage hold the
// same gradient, so the first one speaks.
class StageSquares {
 public:
  // Of no stage, of the rank's own, of all of its virtual worker.
  enum class Of { none, own, all };
  using ByStage = std::vector<std::vector<double>>;

  // All outlive this.
  StageSquares(Of of, const WorkerPlace& place, const Stage& any, Optimizer& optimizer,
               RankService& service, Pace& pace);

  // Waits for the device, and for the other stages.
  ByStage of(Minibatch p, Buffer& gradient);

 private:
  Of of_;
  const WorkerPlace& place_;
  const Stage& any_;
  Optimizer& optimizer_;
  RankService& service_;
  Pace& pace_;
  std::map<std::pair<Minibatch, int>, std::vector<double>> come_;  // by position
};

}  // namespace hetpipe
