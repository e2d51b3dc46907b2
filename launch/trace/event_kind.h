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
  Track track;
};

inline constexpr std::array<EventKind, 11> kEventKinds{{
    {ActionKind::forward, Track::computes},
    {ActionKind::backward, Track::computes},
    {ActionKind::weight_gradient, Track::computes},
    {ActionKind::recompute, Track::computes},
    {ActionKind::update, Track::computes},
    {ActionKind::evaluate, Track::computes},
    {ActionKind::checkpoint, Track::computes},
    {ActionKind::receive, Track::receives},
    {ActionKind::send, Track::sends},
    {ActionKind::push, Track::server},
    {ActionKind::pull, Track::server},
}};

// UserError for a kind that no schedule has.
const EventKind& kind_of(const TraceEvent& event);

}  // namespace hetpipe
