// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "partitioner/simulator/durations.h"
#include "partitioner/simulator/replayed.h"

// Recorded times in place of those of profile and network.
//
// What computes takes the time of its row. What waits begins where the simulation has it begin:
//   activations, gradients: this long after the last of their senders' F or B;
//   sum: after the last device that shares layers with this one has handed over its gradients;
//   snapshot: where labels follow from the plan, after the last push that its label holds; with
//     pull = "newest" from the gate on (which still opens with the bound's last push).
// Without a row a message, a sum or a snapshot takes the network's time.
namespace hetpipe {

class Replay {
 public:
  // `asked`: so many minibatches of each virtual worker; absent: those of the file.
  Replay(const Durations& durations, std::size_t virtual_workers, std::optional<int> asked);

  // Of a virtual worker.
  Minibatch minibatches_of(int virtual_worker) const {
    return minibatches_[static_cast<std::size_t>(virtual_worker)];
  }

  // Minibatches count from 0, the file's first. UserError where the file lacks the action, but has
  // its kind and its minibatch.
  double computing(Timed what, const RecordedPlace& where, Minibatch p, int micro, double modelled);
  double sum(const RecordedPlace& where, Minibatch p);
  std::optional<double> waited(Timed what, const RecordedPlace& where, Minibatch p, int micro);

  bool has_sums() const { return has_[static_cast<std::size_t>(Timed::sum)]; }
  // Then what an action itself waits for (tied weights) is in its time.
  bool has_messages() const {
    return has_[static_cast<std::size_t>(Timed::activations)] ||
           has_[static_cast<std::size_t>(Timed::gradients)];
  }

  // UserError where the file has an action of these minibatches that was not played.
  void check_all_played() const;
  Replayed replayed() const { return replayed_; }

 private:
  // Minibatches of its virtual worker in the file.
  Minibatch recorded_of(const RecordedPlace& where) const {
    return recorded_[static_cast<std::size_t>(where.virtual_worker)];
  }
  std::optional<double> find(Timed what, const RecordedPlace& where, Minibatch p, int micro);
  [[noreturn]] void refuse_missing(Timed what, const RecordedPlace& where, Minibatch p,
                                   int micro) const;

  const Durations& durations_;
  std::vector<Minibatch> recorded_;  // [virtual worker]
  std::vector<Minibatch> minibatches_;
  std::vector<bool> has_;     // [Timed]
  std::vector<bool> played_;  // [row]
  std::map<std::pair<Timed, RecordedPlace>, std::optional<double>> medians_;
  Replayed replayed_;
};

}  // namespace hetpipe
