// SPDX-License-Identifier: Apache-2.0
#include "runtime/sync/gate_stop.h"

#include "base/time.h"

namespace hetpipe {
namespace {

double seconds_now() { return static_cast<double>(now_ns()) * 1e-9; }

}  // namespace

GateStop::GateStop(Setup setup, WaveClock& clock, RankService& service)
    : setup_(std::move(setup)),
      clock_(clock),
      service_(service),
      agreement_(clock.rules(), service.transport().ranks()) {
  forecast_.started(seconds_now());
  service.on<StopRequest>(
      [this](Rank from, const StopRequest& request) { decide(from, request.signal); });
  service.on<StopKnown>([this](Rank from, const StopKnown&) {
    agreement_.knows(from);
    if (inside_ && agreement_.all_know()) tell_first_stages(StopGo{});
  });
  service.on<StopHere>([this](Rank, const StopHere& here) {
    inside_->comes_to(here.next);
    if (inside_->all_are_known()) stop_inside();
  });
}

void GateStop::wave_done() { forecast_.wave_done(seconds_now()); }

void GateStop::decide(Rank by, int signal) {
  const std::optional<Label> label = agreement_.decide();
  if (!label) return;
  agreed_ = StopAt{.before = *label * clock_.rules().length(), .by = by, .signal = signal};
  const auto left = forecast_.until(*label - clock_.global_clock(), seconds_now());
  const double notice = setup_.notice_seconds;
  const bool too_late = notice > 0 && (!left || *left > notice);  // or it may be
  const bool hurries = signal != 0;  // who has reached a target has time
  if (hurries && too_late && clock_.rules().distance < kUnbounded) {
    ask_where();
  } else {
    tell_all();
  }
}

void GateStop::ask_where() {
  inside_.emplace(clock_.rules(), static_cast<int>(setup_.first_stages.size()));
  tell_first_stages(StopWhere{});
}

void GateStop::stop_inside() {
  agreed_.before =
      inside_->decide(agreed_.before / clock_.rules().length()).value_or(agreed_.before);
  tell_all();
}

void GateStop::tell_all() {
  clock_.stop_before(agreed_.before);
  service_.tell_all(agreed_);
}

}  // namespace hetpipe
