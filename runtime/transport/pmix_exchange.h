// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/ids.h"

namespace hetpipe {

// Every rank's bytes by way of the launcher's PMIx server and its daemons: no rank sends a message
// to another, so that it works where links between ranks do not. The only door to PMIx. For
// processes whose MPI has been started by PMIx, or that are alone.
class PmixExchange {
 public:
  // SystemError if this process has no PMIx server, or another rank there.
  PmixExchange(Rank rank, int ranks);
  ~PmixExchange();
  PmixExchange(const PmixExchange&) = delete;
  PmixExchange& operator=(const PmixExchange&) = delete;

  // Called by all ranks together: every rank's bytes, by rank. Polls while it waits for the others;
  // SystemError when not all have arrived after `seconds`.
  std::vector<std::vector<std::byte>> exchange(std::span<const std::byte> mine, double seconds,
                                               const std::function<void()>& poll);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hetpipe
