// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kernels/buffer.h"
#include "kernels/element.h"
#include "partitioner/plan/weight_rule.h"
#include "partitioner/schedule/wave_rules.h"
#include "runtime/pipeline/stage_state.h"

namespace hetpipe {

// One state of a stage's weights, flat. Shared by the minibatches that run with it, immutable once
// shared.
struct WeightVersion {
  Buffer values;
  Label label = 0;  // the snapshot that it rests on
};

// A stage's weights: which own updates are visible to which minibatch, and what a pull leaves in
// place (docs/wsp.md). F(p) finds
//
//   snapshot(L) + own waves L ... w-1 + own updates of wave w that are visible
//
// where the last gate passed stood in wave w and granted label L (by arrival, L holds the own waves
// below w). Without gates there is no label: the start and all visible updates. A version still
// referenced is never changed: a caller that keeps the one of its F for its B stashes weights.
class LocalWeights {
 public:
  // `initial`: snapshot(first_wave), what the run starts from. `pushed`: what waves' sums are
  // rounded to when they end; own waves count as they were pushed.
  LocalWeights(Device& device, Stream& stream, const WaveRules& rules, Visible visible,
               std::span<const float> initial, ElementType pushed = ElementType::fp32);
  // Visible::exactly; continues at rules.start_minibatch() like a run that arrived there.
  LocalWeights(Device& device, Stream& stream, const WaveRules& rules, const ExactWeights& exact,
               ElementType pushed = ElementType::fp32);

  // Where pushes lie, of so many bytes; else in memory of the device.
  void push_from(std::function<Buffer(std::size_t)> memory) { push_memory_ = std::move(memory); }

  Label label() const { return current_->label; }  // of the snapshot that the weights rest on

  // What F(p) finds. Called for each p in order.
  std::shared_ptr<const WeightVersion> version_for(Minibatch p);
  std::shared_ptr<const WeightVersion> newest() const { return current_; }  // that is visible
  // What the next F finds (nothing comes any more: all updates) is visible from now on, so that
  // everything() has less to copy. Changes no pass: where updates are kept back, B use the version
  // of their F.
  enum class Next { forward, nothing };
  void make_visible(Next next);
  // The newest, and what is kept back: all updates so far. Without the latter nothing is copied.
  std::shared_ptr<const WeightVersion> everything();
  // The same of `count` floats from `first` on, to `to`; enqueued.
  void copy_everything(std::int64_t first, std::int64_t count, float* to);
  // Updates computed since the training's start, where every minibatch makes one.
  std::int64_t updates_done() const { return rules_.updates_done(updated_); }
  // One past the newest minibatch whose update is visible.
  Minibatch seen() const { return seen_; }

  // Update of minibatch q, in order: the applied weight change. `wave_sums`: they are to be pushed.
  enum class WaveSums { no, yes };
  void computed(Minibatch q, Buffer delta, WaveSums wave_sums = WaveSums::yes);

  // All updates of the wave are in: their sum, to be pushed, once `limit` (may be empty) has had a
  // look at it; rounded. Kept here until no gate can ask for it again.
  std::shared_ptr<const Buffer> end_wave(Wave wave, const std::function<void(Buffer&)>& limit = {});

  // At the gate, nothing but rebase() comes next, for this label or a later one: frees what that
  // does not need. An evaluation takes the room. (Also behind the last wave: nothing comes.)
  void let_go(Wave gate, Label label);
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
  // The same inside of a wave, before end_wave: behind the newest update, when all minibatches
  // below have made theirs.
  ExactWeights exact_inside();

 private:
  struct Update {
    Minibatch minibatch;
    std::shared_ptr<const Buffer> delta;
  };
  struct OwnWave {
    Wave wave;
    std::shared_ptr<const Buffer> sum;  // as it was pushed
  };
  struct Kept {
    std::shared_ptr<const WeightVersion> base;
    std::vector<Update> updates;
  };
  bool has_let_go() const { return current_->values.bytes() != bytes(); }
  void make_visible_below(Minibatch unseen);
  void add_to_current(const Buffer& delta);
  void add_to_wave(const Buffer& delta);
  Buffer memory_of_push(std::size_t bytes);
  Buffer rounded(Buffer sum);
  // use(first, count, floats) of all numbers of a push, some after some.
  using UseFloats = std::function<void(std::int64_t, std::int64_t, const float*)>;
  void each_float(const Buffer& pushed, const UseFloats& use);
  std::vector<float> download(const Buffer& buffer);
  ExactWeights exact_of(const Kept& kept, Minibatch p);
  Buffer upload(std::span<const float> values, MemoryKind kind);
  std::size_t bytes() const { return static_cast<std::size_t>(count_) * sizeof(float); }

  Device& device_;
  Stream& stream_;
  Minibatch first_unseen(Minibatch p) const;

  const WaveRules& rules_;
  Visible visible_;
  ElementType pushed_;
  std::int64_t count_;
  Minibatch updated_;
  Minibatch seen_;
  Minibatch next_;  // that asks for its weights
  std::shared_ptr<WeightVersion> current_;
  std::deque<Update> kept_back_;   // computed, not visible yet
  std::deque<OwnWave> own_waves_;  // pushed, maybe not in the next label
  std::optional<Kept> kept_;
  std::function<Buffer(std::size_t)> push_memory_;
  Buffer wave_sum_;
  bool wave_sum_started_ = false;
};

}  // namespace hetpipe
