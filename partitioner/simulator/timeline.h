// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "partitioner/cluster/cluster.h"
#include "partitioner/plan/plan.h"
#include "partitioner/profile/profile.h"
#include "partitioner/simulator/simulate.h"

// When every action of a whole training happens, by the simulator: what a run whose clock is
// simulated takes its times from, and, where labels depend on time, its labels.
namespace hetpipe {

// What one device does with one minibatch, in seconds; they add up to its time.
struct MinibatchTimes {
  double forward = 0;  // recomputing too
  double backward = 0;
  double update = 0;
  double transfer = 0;     // waiting while what it waits for is on the wire
  double bubble = 0;       // waiting for anything else
  double server_wait = 0;  // gates and pulls
  double end = 0;          // since the start: its update has been made, its wave been pushed

  double busy() const { return forward + backward + update; }
  double waiting() const { return transfer + bubble + server_wait; }
  // Of a later minibatch.
  MinibatchTimes& operator+=(const MinibatchTimes& next) {
    forward += next.forward;
    backward += next.backward;
    update += next.update;
    transfer += next.transfer;
    bubble += next.bubble;
    server_wait += next.server_wait;
    end = next.end;
    return *this;
  }
};

// Of a long training (more than half a million actions of all devices) the beginning is simulated;
// from then on the steady part of that repeats, at its pace.
class Timeline {
 public:
  // `minibatches`: of each virtual worker. UserError as simulate().
  Timeline(const Plan& plan, const Cluster& cluster, const Profile& profile, Minibatch minibatches);
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  // Actions of one device: of a position in the pipeline, and of a replica there.
  class Row {
   public:
    struct Span {
      double start = 0;  // s
      double end = 0;
      double busy = 0;  // of these, computing: the last ones
    };
    // Nothing for an action that the simulation does not have.
    std::optional<Span> of(const Action& action) const;
    MinibatchTimes of(Minibatch p) const;

   private:
    friend class Timeline;
    const Timeline* timeline_ = nullptr;
    int virtual_worker_ = 0;
    std::vector<SimulatedEvent> events_;  // minibatch by minibatch
    std::vector<std::size_t> first_;      // [minibatch], and one past the last
  };
  const Row& row(VirtualWorkerId vw, int position, int replica) const;

  // The label that the gate of a wave >= 1 grants; nothing where it is the bound's, and where one
  // passed gate after another makes the labels.
  std::optional<Label> label(VirtualWorkerId vw, Wave wave) const;
  // When the gate is passed, in seconds; not before that of the wave before. Of asynchronous
  // training.
  double passed(VirtualWorkerId vw, Wave wave) const;

  double seconds() const;  // until the last action of the last minibatch

 private:
  // Of a minibatch of the whole training: the one that is simulated for it, and what to add.
  struct Place {
    Minibatch simulated = 0;
    double later = 0;  // s
  };
  Place place(Minibatch p, int vw) const;
  double complete(Label label) const;

  Minibatch minibatches_;
  Minibatch wave_;    // the length of one
  int distance_ = 0;  // D
  bool bounded_ = true;
  Minibatch repeat_ = 0;  // from here on the `period_` minibatches before it repeat; 0: none do
  Minibatch period_ = 0;
  std::vector<double> pace_;  // [virtual worker] s that a period takes
  std::vector<SimulatedStage> stages_;
  std::vector<Row> rows_;
  std::vector<double> complete_;
  std::vector<std::vector<double>> gates_;
};

}  // namespace hetpipe
