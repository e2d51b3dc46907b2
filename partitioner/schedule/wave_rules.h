// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/ids.h"

namespace hetpipe {

enum class PullRule { bound, newest };
inline constexpr Wave kUnbounded = Wave{1} << 40;  // D of asynchronous training

// The arithmetic of Wave Synchronous Parallel (arXiv 2005.14038; made exact in
// docs/wsp.md), fixed before a run (which may be asked to end earlier): which wave a minibatch
// belongs to, where the gates are, what may be stale. A wave is in_flight consecutive minibatches,
// or with outer steps a round of so many (docs/outer.md): here the wave is what is pushed at once.
// Waves are aligned to minibatch 0. A run may start at a later wave: with empty pipelines
// (first_wave), or to continue, bit for bit, one that did (played).
struct WaveRules {
  int in_flight = 1;  // Nm
  int round = 1;      // a wave is so many times in_flight minibatches long
  Wave distance = 0;  // D
  PullRule pull = PullRule::bound;
  Wave first_wave = 0;         // before it the pipelines were empty
  std::vector<Minibatch> end;  // per virtual worker, one past its last minibatch
  Wave played = 0;  // waves from first_wave on that the run continued here has played, and ...
  int inside = 0;   // ... minibatches of the next one: fewer than its length
  // Counted up to first_wave, over runs whose waves may have had other lengths: minibatches of each
  // virtual worker, updates of each optimizer. Numbers of minibatches say neither; they are aligned
  // to the waves of this run.
  std::int64_t minibatches_before = 0;
  std::int64_t updates_before = 0;
  // The run was asked to end before this minibatch of every virtual worker.
  std::optional<Minibatch> stopped_before{};
  // The label of a gate where pull is newest and time is simulated: decided by the simulator. By
  // arrival it decides when a gate is passed (s), so which one is before another.
  std::function<Label(VirtualWorkerId, Wave)> granted{};
  std::function<double(VirtualWorkerId, Wave)> passed{};

  int workers() const { return static_cast<int>(end.size()); }
  // Asynchronous training: the servers add each push by itself, when its virtual worker comes to
  // the next gate. There a label is not of a wave, but counts the pushes from start_wave() on, and
  // each gate has one of its own, the first with its push of the wave before. Pushes without a gate
  // behind them are added at the end, by virtual worker.
  bool by_arrival() const { return distance == kUnbounded; }
  Minibatch length() const { return Minibatch{in_flight} * round; }  // of a wave
  Wave wave_of(Minibatch p) const { return p / length(); }
  Minibatch first_minibatch() const { return first_wave * length(); }
  Wave start_wave() const { return first_wave + played; }  // the first that this run plays
  Minibatch start_minibatch() const { return start_wave() * length() + inside; }
  // Minibatches that a virtual worker has done when it comes to p, since the training's start.
  std::int64_t minibatches_done(Minibatch p) const {
    return minibatches_before + p - first_minibatch();
  }
  // The same of its optimizer's updates, one for each minibatch (or wave).
  std::int64_t updates_done(Minibatch p) const { return updates_before + p - first_minibatch(); }
  std::int64_t updates_done_by_wave(Wave wave) const { return updates_before + wave - first_wave; }
  // One past the last wave of a virtual worker; the last one may be partial.
  Wave end_wave(VirtualWorkerId vw) const {
    const Minibatch last = end[static_cast<std::size_t>(vw.value)];
    return std::max(start_wave(), (last + length() - 1) / length());
  }
  // The label that contains everything.
  Label end_label() const {
    Label label = start_wave();
    for (int i = 0; i < workers(); ++i) label = std::max(label, end_wave(VirtualWorkerId{i}));
    return label;
  }
  // The snapshot that contains everything.
  Label end_snapshot() const {
    if (!by_arrival()) return end_label();
    Label label = start_wave();
    for (int i = 0; i < workers(); ++i) label += end_wave(VirtualWorkerId{i}) - start_wave();
    return label;
  }
  // Whether a gate stands behind this wave: before a minibatch of the next.
  bool has_gate_behind(VirtualWorkerId vw, Wave wave) const {
    return gate_of(wave + 1) < end[static_cast<std::size_t>(vw.value)];
  }
  // Ends the run of every virtual worker at this label, if it has not ended before.
  void stop_at(Label label) { stop_before(label * length()); }
  // The same before a minibatch: inside of a wave, which is then the last one, and partial.
  void stop_before(Minibatch p) {
    stopped_before = p;
    for (Minibatch& last : end) last = std::min(last, p);
  }
  // The label of a run that was asked to end: of its last wave, whole or partial.
  std::optional<Label> stopped() const {
    if (!stopped_before) return std::nullopt;
    return (*stopped_before + length() - 1) / length();
  }
  bool stopped_inside() const { return stopped_before && *stopped_before % length() != 0; }
  // Minibatches of a virtual worker that a label holds, if it has so many, from number 0 on.
  Minibatch end_of(Label label) const {
    const Minibatch whole = label * length();
    return stopped_before ? std::min(whole, *stopped_before) : whole;
  }
  // The gate of a wave stands before the F of its in_flight-th minibatch: the first one that sees
  // all updates of the wave before.
  Minibatch gate_of(Wave wave) const { return wave * length() + in_flight - 1; }
  // The wave whose gate stands before F(p). The run's first wave has none.
  std::optional<Wave> gate_before(Minibatch p) const {
    const Wave wave = wave_of(p);
    if (p != gate_of(wave) || wave == first_wave) return std::nullopt;
    return wave;
  }
  // The last wave whose gate (if it has one) F(p) has behind it.
  Wave last_gate(Minibatch p) const { return wave_of(p) - (p < gate_of(wave_of(p)) ? 1 : 0); }
  // p ends its wave, or the virtual worker's run: its update completes a push.
  bool ends_wave(VirtualWorkerId vw, Minibatch p) const {
    return (p + 1) % length() == 0 || p + 1 == end[static_cast<std::size_t>(vw.value)];
  }
  // The smallest label that the gate of `wave` may grant.
  Label bound_label(Wave wave) const { return std::max(first_wave, wave - distance); }
  // Own updates that F(p) sees: those of minibatches below this one.
  Minibatch visible_updates(Minibatch p) const {
    return std::max(first_minibatch(), p - in_flight + 1);
  }
  // Minibatches below p whose updates those from p on may have to see one by one. What ends a wave
  // is seen with its whole sum alone, behind the gate of the next one.
  std::vector<Minibatch> single_updates(Minibatch p) const {
    std::vector<Minibatch> all;
    for (Minibatch q = std::max(first_minibatch(), p - in_flight); q < p; ++q) {
      if (q + 1 != wave_of(p) * length()) all.push_back(q);
    }
    return all;
  }
  // Minibatches of another virtual worker, below p, that F(p) under `label` does not see; by
  // arrival the mean over the others, rounded up.
  Minibatch staleness(Minibatch p, Label label) const {
    if (!by_arrival()) return std::max<Minibatch>(0, p - label * length());
    if (workers() == 1) return 0;
    const Wave own = std::max(start_wave(), last_gate(p));
    const Minibatch seen = std::max<Wave>(0, label - own) * length() / (workers() - 1);
    return std::max<Minibatch>(0, p - start_wave() * length() - seen);
  }
  Minibatch local_staleness() const { return in_flight - 1; }
  // (D+1)(s_local+1) + s_local - 1, where a wave has s_local + 1 minibatches
  Minibatch global_staleness() const { return (distance + 1) * length() + local_staleness() - 1; }
};

}  // namespace hetpipe
