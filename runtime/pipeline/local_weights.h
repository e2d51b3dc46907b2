// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kernels/buffer.h"
#include "partitioner/schedule/wave_rules.h"
#include "runtime/pipeline/stage_state.h"

namespace hetpipe {

// One state of a stage's weights, flat. Shared by the minibatches that run with it, immutable once
// shared.
struct WeightVersion {
  Buffer values;
  Label label = 0;  // the snapshot that it rests on
};

// A stage's weights under WSP with weight stashing: which own updates are visible to which
// minibatch, and what a pull leaves in place. The rule (docs/wsp.md), the same at every stage
// whatever the cut:
//
//   F(p) and B(p) use   snapshot(L) + own waves L ... w-1 + own updates of wave w up to p - Nm
//
// where the last gate passed stood in wave w and granted label L. B(q) may run before F(q + Nm) is
// due: its update is then computed already and kept back until then.
class LocalWeights {
 public:
  // `initial`: snapshot(first_wave), what the run starts from.
  LocalWeights(Device& device, Stream& stream, const WaveRules& rules,
               std::span<const float> initial);
  // Goes on at rules.start_wave() as a run that came there.
  LocalWeights(Device& device, Stream& stream, const WaveRules& rules, const ExactWeights& exact);

  Label label() const { return current_->label; }  // of the snapshot that the weights rest on

  // What F(p) runs with. Called for each p in order.
  std::shared_ptr<const WeightVersion> version_for(Minibatch p);

  // Update of minibatch q, in order: the applied weight change.
  void computed(Minibatch q, Buffer delta);

  // All updates of the wave are in: their sum, to be pushed, once `limit` (may be empty) has had a
  // look at it. Kept here until no gate can ask for it again.
  std::shared_ptr<const Buffer> end_wave(Wave wave, const std::function<void(Buffer&)>& limit = {});

  // At the gate of `wave`, before version_for of its last minibatch: the weights now rest on
  // snapshot(label).
  void rebase(Wave wave, Label label, Buffer snapshot);

  // After version_for of a wave's last minibatch: from now on keeps what exact() of the label
  // behind that wave needs. Costs a weight version, and the wave's updates until exact() has been
  // called.
  void keep_exact();
  // After end_wave: what was kept, to be copied to the host; nothing where keep_exact was not
  // called for that wave.
  std::optional<ExactWeights> exact(Wave wave);

 private:
  struct Update {
    Minibatch minibatch;
    std::shared_ptr<const Buffer> delta;
  };
  struct OwnWave {
    Wave wave;
    std::shared_ptr<const Buffer> sum;
  };
  void add_to_current(const Buffer& delta);
  Buffer upload(std::span<const float> values, MemoryKind kind);
  std::size_t bytes() const { return static_cast<std::size_t>(count_) * sizeof(float); }

  Device& device_;
  Stream& stream_;
  const WaveRules& rules_;
  std::int64_t count_;
  std::shared_ptr<WeightVersion> current_;
  std::deque<Update> kept_back_;   // computed, not visible yet
  std::deque<OwnWave> own_waves_;  // pushed, maybe not in the next label
  struct Kept {
    std::shared_ptr<const WeightVersion> base;
    std::vector<std::shared_ptr<const Buffer>> updates;
  };
  std::optional<Kept> kept_;
  Buffer wave_sum_;
  bool wave_sum_started_ = false;
};

}  // namespace hetpipe
