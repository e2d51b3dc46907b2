// SPDX-License-Identifier: Apache-2.0
#include "launch/report/device_time.h"

#include <algorithm>
#include <tuple>

#include "base/index.h"
#include "base/text.h"
#include "launch/trace/time_shares.h"
#include "partitioner/schedule/schedule.h"

namespace hetpipe {
namespace {

constexpr double kAsLittle = 0.02;  // of a device's time

DeviceTime of_result(const Json& rank) {
  DeviceTime time;
  time.virtual_worker = rank.at("virtual_worker").get<int>();
  time.stage = rank.at("stage").get<int>();
  time.replica = rank.at("replica").get<int>();
  time.device = rank.at("device").get<std::string>();
  time.minibatches = rank.at("minibatches").get<std::int64_t>();
  time.peak_memory = rank.at("peak_memory").get<std::int64_t>();
  const Json& seconds = rank.at("seconds");
  const auto of = [&](const char* key) { return seconds.at(key).get<double>(); };
  time.forward = of("forward");
  time.backward = of("backward");
  time.update = of("update");
  time.bubble = of("bubble");
  time.transfer = of("transfer");
  time.server = of("server_wait");
  time.data = of("data");
  time.unfed = of("unfed");
  time.evaluation = of("evaluation");
  time.total = of("total") - time.evaluation;
  return time;
}

DeviceTime of_trace(const AlignedRank& rank, double seconds) {
  const TraceInfo& info = rank.trace->info;
  DeviceTime time;
  time.virtual_worker = static_cast<int>(info.virtual_worker);
  time.stage = static_cast<int>(info.stage);
  time.replica = static_cast<int>(info.replica);
  time.device = info.device;
  for (const AlignedEvent& at : rank.events) {
    switch (static_cast<ActionKind>(at.event->kind)) {
      case ActionKind::forward:
      case ActionKind::recompute:
        time.forward += at.seconds();
        break;
      case ActionKind::backward:
      case ActionKind::weight_gradient:
        time.backward += at.seconds();
        break;
      case ActionKind::update:
        time.update += at.seconds();
        time.minibatches = std::max(time.minibatches, at.event->minibatch + 1);
        break;
      default:
        break;
    }
  }
  const TimeShares shares = time_shares(rank, seconds);
  time.bubble = shares.receiving;
  time.server = shares.server;
  time.evaluation = shares.evaluation;
  time.total = seconds - shares.evaluation;
  return time;
}

// All of it, from the first to the last event.
std::vector<DeviceTime> of_simulation(const Simulation& simulation) {
  std::vector<DeviceTime> times;
  for (const SimulatedStage& stage : simulation.stages) {
    DeviceTime& time = times.emplace_back();
    time.virtual_worker = stage.virtual_worker;
    time.stage = stage.stage;
    time.replica = stage.replica;
    time.device = to_string(stage.device);
  }
  double last = 0;
  for (const SimulatedEvent& event : simulation.events) {
    DeviceTime& time = times[at(event.row)];
    last = std::max(last, event.end);
    const double waits = std::max(0.0, event.end - event.start - event.busy - event.wire);
    switch (event.action.kind) {
      case ActionKind::pull:
        time.server += event.end - event.start;
        continue;
      case ActionKind::forward:
      case ActionKind::recompute:
        time.forward += event.busy;
        break;
      case ActionKind::backward:
      case ActionKind::weight_gradient:
        time.backward += event.busy;
        break;
      default:
        time.update += event.busy;
        if (event.action.kind == ActionKind::update) {
          time.minibatches = std::max(time.minibatches, event.action.minibatch + 1);
        }
    }
    time.transfer += event.wire;
    time.bubble += waits;
  }
  for (DeviceTime& time : times) time.total = last;
  return times;
}

}  // namespace

double DeviceTime::other() const {
  // Waits overlap with the ends of modelled actions by what it takes to wake up: not below 0.
  return std::max(0.0, total - compute() - bubble - transfer - server - data);
}

std::string DeviceTime::place() const {
  return format("virtual worker %d, stage %d on %s", virtual_worker, stage, device.c_str());
}

std::vector<DeviceTime> device_times(const ReportedRun& run) {
  std::vector<DeviceTime> times;
  if (run.simulation) {
    times = of_simulation(*run.simulation);
  } else if (!run.result.is_null()) {
    for (const Json& rank : run.result.at("ranks").items()) times.push_back(of_result(rank));
  } else if (run.timeline) {
    for (const AlignedRank& rank : run.timeline->ranks) {
      if (rank.trace->info.virtual_worker < 0) continue;
      times.push_back(of_trace(rank, run.timeline->seconds));
    }
  }
  std::sort(times.begin(), times.end(), [](const DeviceTime& a, const DeviceTime& b) {
    return std::tuple(a.virtual_worker, a.stage, a.replica) <
           std::tuple(b.virtual_worker, b.stage, b.replica);
  });
  return times;
}

const TimePart& largest_wait(const DeviceTime& time) {
  return *std::max_element(
      kTimeParts.begin() + 1, kTimeParts.end(),
      [&](const TimePart& a, const TimePart& b) { return a.seconds(time) < b.seconds(time); });
}

const DeviceTime* least_in_bubbles(const std::vector<DeviceTime>& times) {
  const auto bubbles = [](const DeviceTime& time) { return time.bubble / time.total; };
  const auto servers = [](const DeviceTime& time) { return time.server / time.total; };
  std::vector<const DeviceTime*> used;
  for (const DeviceTime& time : times) {
    if (time.total > 0 && time.compute() > 0) used.push_back(&time);
  }
  if (used.empty()) return nullptr;
  double least = 1;
  for (const DeviceTime* time : used) least = std::min(least, bubbles(*time));
  const DeviceTime* found = nullptr;
  for (const DeviceTime* time : used) {
    if (bubbles(*time) > least + kAsLittle) continue;
    if (found == nullptr || servers(*time) < servers(*found) - kAsLittle ||
        (servers(*time) <= servers(*found) + kAsLittle && bubbles(*time) < bubbles(*found))) {
      found = time;
    }
  }
  return found;
}

}  // namespace hetpipe
