// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

#include "runtime/data/prefetch.h"
#include "runtime/pipeline/pace.h"
#include "runtime/pipeline/rank_service.h"
#include "runtime/pipeline/reports.h"
#include "runtime/pipeline/stage.h"
#include "runtime/pipeline/stage_messages.h"
#include "runtime/pipeline/work_queue.h"

namespace hetpipe {

// The test set as one virtual worker sees it.
struct TestBatches {
  std::vector<std::int64_t> numbers;                  // those that it takes
  std::function<std::int64_t(std::int64_t)> samples;  // of a batch, all replicas together
  std::function<Batch(std::int64_t)> batch;           // this replica's samples of it
  std::function<double(int, std::int64_t)> modelled;  // s of a chunk's forward, where emulated
};

// A rank's part in evaluating: passes the test batches through its stages, one after another.
class Evaluator {
 public:
  Evaluator(const TestBatches& batches, std::vector<Stage*> chunks, StageMessages& messages,
            RankService& service, Pace& pace);

  // Makes host memory for batches whose labels have so many bytes beforehand.
  void reserve(std::size_t bytes) { ahead_.reserve(bytes, 3); }
  // With these weights and running statistics, flat, chunk after chunk; foreign weights by chunk.
  // Returns the loss, if this rank has it. NumericalError if it is not finite.
  EvaluationReport evaluate(Label label, const float* weights, const std::vector<Buffer>& foreign,
                            float* statistics);

 private:
  void pass_through(std::int64_t number, const float* own, const std::vector<Buffer>& foreign,
                    float* statistics, EvaluationReport& sum);

  const TestBatches& batches_;
  std::vector<Stage*> chunks_;
  StageMessages& messages_;
  RankService& service_;
  Pace& pace_;
  RankReport unused_;  // times are the caller's
  WorkQueue ahead_;    // waits for every batch
};

}  // namespace hetpipe
