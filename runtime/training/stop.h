// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/ids.h"
#include "runtime/pipeline/rank_service.h"

namespace hetpipe {

// Instead of a signal's number: the accuracy that the run was to reach has been reached; the waves
// after which it was to rehearse being preempted are done.
inline constexpr int kTargetReached = 0;
inline constexpr int kRehearsal = -1;

// Which rank was asked to stop the run, and how.
struct StopWanted {
  Rank rank;
  int signal = 0;  // or one of these
};

// A rank's part in stopping on request: passes a signal that it got on to the coordinator
// (Roles::coordinator()), which decides where all stop (runtime/sync/stop_agreement.h), and applies
// the decision when it comes.
class StopListener {
 public:
  // stop_wanted: the signal that came (or one of the above), if one did; may be empty. apply:
  // called once.
  StopListener(RankService& service, Rank decides, std::function<std::optional<int>()> stop_wanted,
               std::function<void(Label, const StopWanted&)> apply);

 private:
  bool told_ = false;
};

}  // namespace hetpipe
