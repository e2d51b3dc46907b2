// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "partitioner/schedule/schedule.h"
#include "runtime/store/trace.h"

// What the events of a trace are.
namespace hetpipe {

// Of one rank; those of a track follow each other.
enum class Track { computes, receives, sends, server };
inline constexpr std::array kTracks{"computes", "receives", "sends", "pushes and pulls"};

struct EventKind {
  ActionKind kind;
  const char* name;
  Track track;
};

inline constexpr std::array<EventKind, 11> kEventKinds{{
    {ActionKind::forward, "forward", Track::computes},
    {ActionKind::backward, "backward", Track::computes},
    {ActionKind::weight_gradient, "weight gradient", Track::computes},
    {ActionKind::recompute, "recompute", Track::computes},
    {ActionKind::update, "update", Track::computes},
    {ActionKind::evaluate, "evaluation", Track::computes},
    {ActionKind::checkpoint, "checkpoint", Track::computes},
    {ActionKind::receive, "receive", Track::receives},
    {ActionKind::send, "send", Track::sends},
    {ActionKind::push, "push", Track::server},
    {ActionKind::pull, "pull", Track::server},
}};

// UserError for a kind that no schedule has.
const EventKind& kind_of(const TraceEvent& event);

}  // namespace hetpipe
