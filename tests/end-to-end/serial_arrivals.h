// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>
#include <vector>

#include "tests/end-to-end/serial_worker.h"

namespace hetpipe {

// Asynchronous training: the servers add pushes one by one,
//   snapshot(L+1) = snapshot(L) + factor(worker) * its wave,
// each when its virtual worker comes to the gate behind that wave, which is granted the label that
// the push makes: so the labels of all gates tell the order. Those without a gate behind them
// follow, by virtual worker.
class SerialArrivals {
 public:
  // Granted by the plan's one virtual worker itself, where system.granted is absent.
  SerialArrivals(const SerialSystem& system, const SerialWorkers& workers);

  Label granted(int worker, Wave gate) const;
  // Appends the snapshots whose pushes have been made.
  void take(const SerialWorkers& workers, std::vector<Floats>& snapshots) const;
  // By label of a checkpoint: of the pushes, in this order, those of waves below it.
  std::vector<Floats> of_waves(const SerialWorkers& workers, const Floats& initial) const;

 private:
  using Push = std::pair<int, Wave>;  // virtual worker, wave
  bool add(const SerialWorkers& workers, const Push& push, Floats& to) const;

  const SerialSystem& system_;
  std::vector<Push> order_;
};

}  // namespace hetpipe
