// SPDX-License-Identifier: Apache-2.0
#include "launch/report/message_times.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "base/index.h"
#include "partitioner/plan/pipeline.h"
#include "partitioner/plan/system.h"
#include "partitioner/simulator/gantt.h"

namespace hetpipe {
namespace {

// (stage of the sender, forwards or backwards, minibatch, micro-batch)
using MessageKey = std::tuple<std::int64_t, bool, std::int64_t, std::int32_t>;

// S follows what computed the tensor, V stands before what needs it; the trace does not say which
// of the two directions a message has.
void note_sends(const AlignedRank& rank, std::map<MessageKey, const AlignedEvent*>& sent) {
  bool forward = true;
  for (const AlignedEvent& at : rank.events) {
    const auto kind = static_cast<ActionKind>(at.event->kind);
    if (kind == ActionKind::forward) forward = true;
    if (kind == ActionKind::backward) forward = false;
    if (kind != ActionKind::send) continue;
    sent[{rank.trace->info.stage, forward, at.event->minibatch, at.event->micro_batch}] = &at;
  }
}

void match_receives(const AlignedRank& rank, const std::map<MessageKey, const AlignedEvent*>& sent,
                    MessageRoute& ahead, MessageRoute& back) {
  bool forward = true;  // of the compute that follows: looked at from the end
  for (auto at = rank.events.rbegin(); at != rank.events.rend(); ++at) {
    const auto kind = static_cast<ActionKind>(at->event->kind);
    if (kind == ActionKind::forward) forward = true;
    if (kind == ActionKind::backward) forward = false;
    if (kind != ActionKind::receive) continue;
    const std::int64_t stage = rank.trace->info.stage + (forward ? -1 : 1);
    const auto found = sent.find({stage, forward, at->event->minibatch, at->event->micro_batch});
    if (found == sent.end() || found->second->event->bytes <= 0) continue;
    MessageRoute& route = forward ? ahead : back;
    ++route.messages;
    route.bytes += found->second->event->bytes;
    const double seconds = at->end - found->second->start;
    if (seconds > 0) {
      route.reached =
          std::max(route.reached, static_cast<double>(found->second->event->bytes) / seconds);
    }
  }
}

bool plain(const Plan& plan) {
  if (replicated(plan)) return false;
  return std::all_of(plan.virtual_workers.begin(), plan.virtual_workers.end(), [&](const auto& vw) {
    return pipeline_of(vw, composition(plan).schedule).chunks == 1;
  });
}

}  // namespace

std::vector<MessageRoute> message_routes(const ReportedRun& run) {
  std::vector<MessageRoute> routes;
  if (!run.timeline || !plain(run.plan)) return routes;
  for (std::size_t vw = 0; vw < run.plan.virtual_workers.size(); ++vw) {
    std::map<MessageKey, const AlignedEvent*> sent;
    for (const AlignedRank& rank : run.timeline->ranks) {
      if (rank.trace->info.virtual_worker == static_cast<std::int64_t>(vw)) note_sends(rank, sent);
    }
    const auto& stages = run.plan.virtual_workers[vw].stages;
    for (const AlignedRank& rank : run.timeline->ranks) {
      const TraceInfo& info = rank.trace->info;
      if (info.virtual_worker != static_cast<std::int64_t>(vw)) continue;
      const auto name = [&](std::int64_t stage) {
        const bool there = stage >= 0 && at(stage) < stages.size();
        return there ? to_string(stages[at(stage)].devices.front()) : std::string();
      };
      MessageRoute ahead{name(info.stage - 1), info.device};
      MessageRoute back{name(info.stage + 1), info.device};
      match_receives(rank, sent, ahead, back);
      for (MessageRoute& route : {std::ref(ahead), std::ref(back)}) {
        if (route.messages > 0) routes.push_back(route);
      }
    }
  }
  return routes;
}

}  // namespace hetpipe
