// SPDX-License-Identifier: Apache-2.0
#include "runtime/training/clock.h"

#include <algorithm>

#include "base/time.h"
#include "runtime/training/messages.h"

namespace hetpipe {
namespace {

constexpr int kQuestions = 8;

}  // namespace

ClockComparison::ClockComparison(RankService& service) : service_(service) {
  service.on<ClockQuestion>([this](Rank from, const ClockQuestion&) {
    service_.send(from, ClockAnswer{.ns = now_ns()});
  });
  service.on<ClockAnswer>([this](Rank, const ClockAnswer& answer) { answer_ns_ = answer.ns; });
  service.on<ClockKnown>([this](Rank, const ClockKnown&) { ++answered_ranks_; });
}

ClockComparison::Reading ClockComparison::ask() {
  Reading best;
  for (int i = 0; i < kQuestions; ++i) {
    answer_ns_.reset();
    const std::int64_t start = now_ns();
    service_.send(Rank{0}, ClockQuestion{});
    service_.wait_for_others([this] { return answer_ns_.has_value(); },
                             [] { return std::string("rank 0 to send the time"); });
    const std::int64_t end = now_ns();
    const double uncertainty = static_cast<double>(end - start) / 2;
    if (i > 0 && uncertainty >= best.uncertainty_ns) continue;
    const std::int64_t middle = start + (end - start) / 2;
    best = {middle, static_cast<double>(*answer_ns_ - middle), uncertainty};
  }
  return best;
}

ClockEstimate ClockComparison::compare() {
  ++rounds_;
  if (service_.transport().rank() == Rank{0}) {
    const int others = service_.transport().ranks() - 1;
    service_.wait_for_others([&] { return answered_ranks_ >= rounds_ * others; },
                             [] { return std::string("all ranks to ask for the time"); });
    return {};  // the clock that the others are compared with
  }
  const Reading now = ask();
  service_.send(Rank{0}, ClockKnown{});
  if (!first_) {
    first_ = now;
    return {now.offset_ns, 0, now.uncertainty_ns};
  }
  const auto elapsed = static_cast<double>(now.own_ns - first_->own_ns);
  return {first_->offset_ns, (now.offset_ns - first_->offset_ns) / elapsed,
          std::max(first_->uncertainty_ns, now.uncertainty_ns)};
}

}  // namespace hetpipe
