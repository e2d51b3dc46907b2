// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/processor_wait.h"
#include "runtime/pipeline/pace.h"
#include "runtime/pipeline/reports.h"
#include "runtime/pipeline/wave_book.h"
#include "runtime/pipeline/work_queue.h"

namespace hetpipe {

// Modelled seconds on an emulated device; 0: not emulated.
struct StagePace {
  double forward = 0;          // of a pass of `samples`; smaller ones take proportionally less
  double backward = 0;         // with the weight gradient
  double weight_gradient = 0;  // of that, where it is separate
  double update = 0;           // of a minibatch
  std::int64_t samples = 0;
};

// What a pass computes: forward, forward once more, backward whole, or in two.
enum class PassPart { forward, again, backward, inputs, weights };

// How long a rank's device is busy with its passes and updates: measured, or, on an emulated
// device, as modelled.
class PassClock {
 public:
  // `paces`: by chunk. All outlive this.
  PassClock(std::vector<StagePace> paces, std::string device, WorkQueue& ahead, Pace& pace,
            WaveBook& wave, RankReport& report)
      : paces_(std::move(paces)),
        device_(std::move(device)),
        ahead_(ahead),
        pace_(pace),
        wave_(wave),
        report_(report) {}

  struct Start {
    std::int64_t ns = 0;
    double waited = 0;  // for a processor, until then
  };
  Start start();
  // Of what the passes and updates since then took together: where the host waits for each of them.
  void start_action() { action_ = {}; }
  const Pace::Span& action() const { return action_; }
  // What has been enqueued since start(), of so many samples. `whose`: for a wait's name; `then`:
  // when it is done.
  void end(const Start& start, PassPart part, int chunk, std::int64_t samples,
           const std::string& whose, std::function<void()> then = {});
  // Likewise, of the optimizer's step.
  void end_update(const Start& start, const std::string& whose);

 private:
  double modelled(PassPart part, int chunk, std::int64_t samples) const;
  double busy_seconds(const Start& start, double modelled_seconds, const WorkQueue::Span& span,
                      std::int64_t samples);
  void add_to_action(const Pace::Span& busy);

  const std::vector<StagePace> paces_;
  const std::string device_;
  WorkQueue& ahead_;
  Pace& pace_;
  WaveBook& wave_;
  RankReport& report_;
  ProcessorWait processor_wait_;
  Pace::Span action_{};
};

}  // namespace hetpipe
