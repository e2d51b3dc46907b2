// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "runtime/pipeline/rank_service.h"
#include "runtime/sync/messages.h"
#include "runtime/sync/stop_agreement.h"
#include "runtime/sync/stop_forecast.h"
#include "runtime/sync/wave_clock.h"

namespace hetpipe {

// Where a run with servers agrees on its end, on the first shard (Roles::coordinator()): at the
// gates of a wave, or inside of one where its end may come after the notice. Made before any rank
// may ask the run to stop.
class GateStop {
 public:
  struct Setup {
    std::vector<Rank> first_stages;  // of all virtual workers, with replicas
    double notice_seconds = 0;       // from a request until the run is ended; 0: unknown
  };
  GateStop(Setup setup, WaveClock& clock, RankService& service);

  // Whether the gate of this wave has to wait for ranks that do not know yet.
  bool shut(Wave wave) const { return agreement_.shut(wave); }
  void gate_passed(Wave wave) { agreement_.gate_passed(wave); }
  void wave_done();  // by all, in order

 private:
  void decide(Rank by, int signal);
  void ask_where();
  void stop_inside();
  void tell_all();
  template <typename M>
  void tell_first_stages(const M& message) {
    for (const Rank rank : setup_.first_stages) service_.send(rank, message);
  }

  Setup setup_;
  WaveClock& clock_;
  RankService& service_;
  StopAgreement agreement_;
  StopForecast forecast_;
  std::optional<StopInside> inside_;
  StopAt agreed_;  // so far at a wave's end
};

}  // namespace hetpipe
