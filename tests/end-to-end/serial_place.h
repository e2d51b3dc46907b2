// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "partitioner/plan/system.h"
#include "partitioner/schedule/counts.h"
#include "tests/end-to-end/serial_systems.h"

namespace hetpipe {

// What all stages of one virtual worker's played schedule go by.
struct SerialRules {
  System system;
  int in_flight = 1;
  Minibatch wave = 1;  // minibatches of one
  Minibatch end = 0;   // one past its last minibatch
  int held = 1;        // most minibatches at its first stage at any moment: what vertical sync lags
  bool rounds_pushes = false;  // to bf16
  // Per stage: how far ahead predictions look.
  std::vector<VersionDifference> ahead;

  SerialRules(const Plan& plan, int worker, Minibatch end_minibatch);
  bool waves() const { return traits(system.sync).waves(); }
  bool two_versions() const { return system.weights == WeightRule::two_versions; }
  bool ends_wave(Minibatch p) const { return (p + 1) % wave == 0 || p + 1 == end; }
  // The number of the update that a minibatch's gradient goes into: its own, or its wave's.
  Minibatch update_of(Minibatch p) const { return two_versions() ? p / in_flight : p; }
};

using SerialMicro = std::pair<Minibatch, int>;

// One stage of one virtual worker: its history of weights, and the rule that says which of them an
// F and its B use. With W(t) for the weights after t updates of the stage
//   one_version, newest  F: W(t)                B: the same; newest: W(t) of its own moment
//   stash                F: W(t)                B: the same. Under WSP t = p - Nm + 1
//   vertical_sync        F: W(p - H + 1)        B: the same
//   two_versions         F: W(wave - 1)         B: the same; one update a wave
//   predicted            F: W(t) + s_F d        B: W(t) + s_B d of its own moment
//   bellwether           the same, at the first F (B) of a minibatch, for all of them
//   recomputed, mixed    F: W(t) of the first F of a minibatch   B: W(t) of its own moment
// where t is what has been updated at the moment and d the direction of the newest step.
//
// Of a tied weight, W is what its owner's stage has, and every F of minibatch p at another stage
// uses what the first F of p there did. B there: the same; where B uses W of its own moment, what
// the newest minibatch that has begun at its stage uses.
class SerialPlace {
 public:
  struct Used {
    Floats weights;
    Minibatch updates = 0;
    int ahead = 0;
  };
  // One micro-batch between its F and its B.
  struct Flight {
    std::vector<SerialPass> passes;
    Used forward;
  };

  SerialPlace(const SerialRules& rules, int number, SerialStage the_stage, Floats initial_weights,
              const Floats& initial_statistics, const SerialOptimizer& optimizer);

  Used for_forward(Minibatch p, int micro);
  Used for_backward(Minibatch p, int micro, const Flight& flight);

  // W(updates): the base, plus own waves since as they were pushed, plus single updates since.
  Floats weights(Minibatch updates) const;
  Minibatch updates() const { return std::ssize(deltas); }
  // From now on W is built on the snapshot of this label, granted at the gate of this wave.
  void pull(Wave the_gate, Label the_label, Floats snapshot);

  // The optimizer's step with the sum of a minibatch's (wave's) gradients.
  void update(Minibatch p, const Floats& gradient);

  const SerialRules& rules;
  int number;
  SerialStage stage;
  std::vector<Floats> running;  // statistics [replica]
  SerialSteps steps;
  std::vector<Floats> deltas;  // applied updates
  std::vector<Floats> waves;   // their sums
  Wave gate = 0;
  Label label = 0;

  std::map<Minibatch, Floats> first_used;      // by the first F of a minibatch
  std::map<Minibatch, SerialForeign> foreign;  // of the minibatches that have begun
  const SerialForeign& foreign_of_backward(Minibatch p) const;

  std::map<SerialMicro, Flight> flights;
  std::set<SerialMicro> forwards;  // done
  std::set<SerialMicro> backwards;
  std::map<Minibatch, std::vector<Floats>> gradients;      // of an update, [replica]
  std::set<Minibatch> summable;                            // updates whose gradients are complete
  std::map<Minibatch, std::vector<Floats>> running_after;  // the last F of a minibatch
  std::map<Label, SerialState> at;  // of this stage; running statistics apart
  std::map<Label, std::vector<Floats>> running_at;

 private:
  Used newest() const { return {weights(updates()), updates(), 0}; }
  Used predicted(Minibatch p, int ahead) const;

  Floats base_;
  Floats partial_;  // own updates of the gate's wave that had been made when it was passed ...
  Minibatch partial_end_ = 0;                             // ... up to this one
  Floats decayed_;                                        // weights that the newest B's F used
  std::map<Minibatch, Used> of_forwards_, of_backwards_;  // that all of a minibatch share
};

}  // namespace hetpipe
