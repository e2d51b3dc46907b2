// SPDX-License-Identifier: Apache-2.0
#include "runtime/pipeline/pass_clock.h"

#include <algorithm>

#include "base/index.h"
#include "base/time.h"

namespace hetpipe {
namespace {

const char* name_of(PassPart part) {
  switch (part) {
    case PassPart::forward:
      return "forward";
    case PassPart::again:
      return "forward once more";
    case PassPart::weights:
      return "weight gradient";
    case PassPart::backward:
    case PassPart::inputs:
      break;
  }
  return "backward";
}

// Work that belongs to a pass which is counted elsewhere.
bool is_rest(PassPart part) { return part == PassPart::again || part == PassPart::weights; }

bool is_forward(PassPart part) { return part == PassPart::forward || part == PassPart::again; }

}  // namespace

PassClock::Start PassClock::start() {
  ahead_.begin();
  return {now_ns(), processor_wait_.seconds()};
}

double PassClock::modelled(PassPart part, int chunk, std::int64_t samples) const {
  const StagePace& pace = paces_[at(chunk)];
  const double seconds = is_forward(part)            ? pace.forward
                         : part == PassPart::weights ? pace.weight_gradient
                         : part == PassPart::inputs  ? pace.backward - pace.weight_gradient
                                                     : pace.backward;
  if (seconds <= 0 || samples == pace.samples) return seconds;
  return seconds * static_cast<double>(samples) / static_cast<double>(pace.samples);
}

void PassClock::end(const Start& start, PassPart part, int chunk, std::int64_t samples,
                    const std::string& whose, std::function<void()> then) {
  double RankReport::*const busy =
      is_forward(part) ? &RankReport::forward_seconds : &RankReport::backward_seconds;
  ahead_.end(WorkQueue::Work::pass, whose + name_of(part) + " on " + device_,
             [=, this, then = std::move(then)](const WorkQueue::Span& span) {
               report_.*busy += busy_seconds(start, modelled(part, chunk, samples), span,
                                             is_rest(part) ? 0 : samples);
               if (then) then();
             });
}

// The pass has been computed: how long the device was busy with it. What the rank itself took
// counts from when it began: an emulated device is busy from when the input was there, which a rank
// may notice late on a busy machine.
double PassClock::busy_seconds(const Start& start, double modelled_seconds,
                               const WorkQueue::Span& span, std::int64_t samples) {
  if (ahead_.is_ahead()) {
    wave_.add_pass(samples, span.seconds());
    return span.seconds();
  }
  const Pace::Span busy = pace_.hold(start.ns, modelled_seconds);
  add_to_action(busy);
  const double waited = processor_wait_.seconds() - start.waited;
  const double took = seconds_between(start.ns, now_ns()) - waited;
  wave_.add_pass(samples, std::max(modelled_seconds, took));
  return busy.seconds();
}

void PassClock::add_to_action(const Pace::Span& busy) {
  if (action_.end_ns == 0) action_.start_ns = busy.start_ns;
  action_.end_ns = busy.end_ns;
}

void PassClock::end_update(const Start& start, const std::string& whose) {
  ahead_.end(WorkQueue::Work::brief, whose + "update on " + device_,
             [this, start](const WorkQueue::Span& span) {
               double modelled = 0;
               for (const StagePace& pace : paces_) modelled += pace.update;
               add_to_action(pace_.advance(start.ns, modelled));
               report_.update_seconds +=
                   ahead_.is_ahead() ? span.seconds() : seconds_between(start.ns, now_ns());
             });
}

}  // namespace hetpipe
