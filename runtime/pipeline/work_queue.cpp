// SPDX-License-Identifier: Apache-2.0
#include "runtime/pipeline/work_queue.h"

#include <algorithm>

#include "base/error.h"

namespace hetpipe {

WorkQueue::WorkQueue(Device& device, Stream& stream, RankService& service, RankReport& report,
                     int pieces)
    : stream_(stream),
      service_(service),
      report_(report),
      pieces_(pieces),
      pool_(device),
      idle_since_ns_(now_ns()) {
  ensure(pieces > 0, "a device has work");
}

void WorkQueue::begin() { next_.start = stream_.record_time(); }

void WorkQueue::end(std::string what, std::function<void(const Span&)> done) {
  next_.what = std::move(what);
  next_.end = stream_.record_time();
  next_.done.push_back(std::move(done));
  next_.action = action_;
  enqueued_.push_back(std::exchange(next_, {}));
  while (!enqueued_.empty() && enqueued_.front().end->done()) complete_first();
  limit(pieces_ - 1);
}

void WorkQueue::then(std::function<void()> what) {
  if (enqueued_.empty()) return what();
  enqueued_.back().done.push_back([what = std::move(what)](const Span&) { what(); });
}

void WorkQueue::limit(int pieces) {
  while (static_cast<int>(enqueued_.size()) > pieces) {
    const Piece& first = enqueued_.front();
    service_.wait([&] { return first.end->done(); }, [&] { return first.what; });
    complete_first();
  }
}

void WorkQueue::complete_first() {
  Piece piece = std::move(enqueued_.front());
  enqueued_.pop_front();
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
  for (; !waits_.empty() && waits_.front().start_ns < end_ns; waits_.pop_front()) {
    const Wait& wait = waits_.front();
    const std::int64_t from = std::max(since, wait.start_ns);
    const std::int64_t until = std::min(end_ns, wait.end_ns);
    if (until <= from) continue;
    report_.unfed_seconds += seconds_between(since, from);
    report_.*wait.reason += seconds_between(from, until);
    since = until;
  }
  if (end_ns > since) report_.unfed_seconds += seconds_between(since, end_ns);
}

}  // namespace hetpipe
