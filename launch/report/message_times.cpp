// SPDX-License-Identifier: Apache-2.0
#include "launch/report/message_times.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "partitioner/plan/pipeline.h"
#include "partitioner/plan/system.h"
#include "partitioner/simulator/gantt.h"

namespace hetpipe {
namespace {

// (virtual worker, stage of the sender, forwards or backwards, minibatch, micro-batch)
using MessageKey = std::tuple<std::int64_t, std::int64_t, bool, std::int64_t, std::int32_t>;
using Sent = std::map<MessageKey, std::pair<std::size_t, const AlignedEvent*>>;  // rank

// S follows what computed the tensor, V stands before what needs it; the trace does not say which
// of the two directions a message has.
void note_sends(std::size_t number, const AlignedRank& rank, Sent& sent) {
  const TraceInfo& info = rank.trace->info;
  bool forward = true;
  for (const AlignedEvent& at : rank.events) {
    const auto kind = static_cast<ActionKind>(at.event->kind);
    if (kind == ActionKind::forward) forward = true;
    if (kind == ActionKind::backward) forward = false;
    if (kind != ActionKind::send) continue;
    sent[{info.virtual_worker, info.stage, forward, at.event->minibatch, at.event->micro_batch}] = {
        number, &at};
  }
}

void match_receives(std::size_t number, const AlignedRank& rank, const Sent& sent,
                    std::vector<MatchedMessage>& messages) {
  const TraceInfo& info = rank.trace->info;
  bool forward = true;  // of the compute that follows: looked at from the end
  for (auto at = rank.events.rbegin(); at != rank.events.rend(); ++at) {
    const auto kind = static_cast<ActionKind>(at->event->kind);
    if (kind == ActionKind::forward) forward = true;
    if (kind == ActionKind::backward) forward = false;
    if (kind != ActionKind::receive) continue;
    const std::int64_t stage = info.stage + (forward ? -1 : 1);
    const auto found = sent.find(
        {info.virtual_worker, stage, forward, at->event->minibatch, at->event->micro_batch});
    if (found == sent.end()) continue;
    messages.push_back({found->second.first, number, forward, found->second.second, &*at});
  }
}

bool plain(const Plan& plan) {
  if (replicated(plan)) return false;
  return std::all_of(plan.virtual_workers.begin(), plan.virtual_workers.end(), [&](const auto& vw) {
    return pipeline_of(vw, composition(plan).schedule).chunks == 1;
  });
}

}  // namespace

std::vector<MatchedMessage> matched_messages(const ReportedRun& run) {
  std::vector<MatchedMessage> messages;
  if (!run.timeline || !plain(run.plan)) return messages;
  const std::vector<AlignedRank>& ranks = run.timeline->ranks;
  Sent sent;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    if (ranks[r].trace->info.virtual_worker >= 0) note_sends(r, ranks[r], sent);
  }
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    if (ranks[r].trace->info.virtual_worker >= 0) match_receives(r, ranks[r], sent, messages);
  }
  return messages;
}

std::vector<MessageRoute> message_routes(const ReportedRun& run) {
  std::map<std::pair<std::size_t, bool>, MessageRoute> routes;  // activations of a receiver first
  for (const MatchedMessage& message : matched_messages(run)) {
    const std::int64_t bytes = message.sent->event->bytes;
    if (bytes <= 0) continue;
    const std::vector<AlignedRank>& ranks = run.timeline->ranks;
    MessageRoute& route = routes[{message.to, !message.forward}];
    route.from = ranks[message.from].trace->info.device;
    route.to = ranks[message.to].trace->info.device;
    ++route.messages;
    route.bytes += bytes;
    const double seconds = message.received->end - message.sent->start;
    if (seconds > 0) route.reached = std::max(route.reached, static_cast<double>(bytes) / seconds);
  }
  std::vector<MessageRoute> result;
  for (auto& [place, route] : routes) result.push_back(std::move(route));
  return result;
}

}  // namespace hetpipe
