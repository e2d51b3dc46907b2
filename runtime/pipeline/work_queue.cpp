// SPDX-License-Identifier: Apache-2.0
#include "runtime/pipeline/work_queue.h"

#include <algorithm>

#include "base/error.h"

namespace hetpipe {

WorkQueue::WorkQueue(Device& device, Stream& stream, RankService& service, RankReport& report,
                     int passes)
    : stream_(stream),
      service_(service),
      report_(report),
      passes_(passes),
      pool_(device),
      idle_since_ns_(now_ns()) {
  ensure(passes > 0, "a device has work");
}

void WorkQueue::begin() { next_.start = stream_.record_time(); }

void WorkQueue::end(Work work, std::string what, std::function<void(const Span&)> done) {
  next_.work = work;
  next_.what = std::move(what);
  next_.end = stream_.record_time();
  next_.done.push_back(std::move(done));
  next_.action = action_;
  enqueued_.push_back(std::exchange(next_, {}));
  passes_enqueued_ += work == Work::pass;
  while (!enqueued_.empty() && enqueued_.front().end->done()) complete_first();
  is_ahead() ? limit(passes_ - 1) : finish();
}

void WorkQueue::then(std::function<void()> what) {
  if (enqueued_.empty()) return what();
  enqueued_.back().done.push_back([what = std::move(what)](const Span&) { what(); });
}

void WorkQueue::limit(int passes) {
  while (passes_enqueued_ > passes) wait_for_first();
}

void WorkQueue::finish() {
  while (!enqueued_.empty()) wait_for_first();
}

void WorkQueue::wait_for_first() {
  const Piece& first = enqueued_.front();
  service_.wait([&] { return first.end->done(); }, [&] { return first.what; });
  complete_first();
}

void WorkQueue::complete_first() {
  Piece piece = std::move(enqueued_.front());
  enqueued_.pop_front();
  passes_enqueued_ -= piece.work == Work::pass;
  const Span span{piece.start->done_ns(), piece.end->done_ns()};
  note_gap(span.start_ns);
  idle_since_ns_ = std::max(idle_since_ns_, span.end_ns);
  if (piece.action) {
    if (piece.action->start_ns == 0) piece.action->start_ns = span.start_ns;
    piece.action->end_ns = span.end_ns;
  }
  for (const auto& done : piece.done) done(span);
  for (const auto& [memory, bytes] : piece.lent) pool_.give_back(memory, bytes);
}

std::byte* WorkQueue::lend(std::size_t bytes) {
  return next_.lent.emplace_back(pool_.take(bytes), bytes).first;
}

void WorkQueue::waited(std::int64_t start_ns, std::int64_t end_ns, double RankReport::*reason) {
  if (is_ahead()) {
    waits_.push_back({start_ns, end_ns, reason});
  } else {
    report_.*reason += seconds_between(start_ns, end_ns);
  }
}

void WorkQueue::restart() {
  finish();
  waits_.clear();
  idle_since_ns_ = now_ns();
}

// The device had nothing to do from the end of one piece to the start of the next.
void WorkQueue::note_gap(std::int64_t end_ns) {
  if (!is_ahead()) return;
  std::int64_t since = idle_since_ns_;
  while (!waits_.empty() && waits_.front().start_ns < end_ns) {
    const Wait& wait = waits_.front();
    const std::int64_t from = std::max(since, wait.start_ns);
    const std::int64_t until = std::min(end_ns, wait.end_ns);
    if (until > from) {
      report_.unfed_seconds += seconds_between(since, from);
      report_.*wait.reason += seconds_between(from, until);
      since = until;
    }
    if (wait.end_ns > end_ns) break;  // it goes on while the piece is computed
    waits_.pop_front();
  }
  if (end_ns > since) report_.unfed_seconds += seconds_between(since, end_ns);
}

}  // namespace hetpipe
