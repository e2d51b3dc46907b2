// SPDX-License-Identifier: Apache-2.0
#include "launch/trace/recorded_run.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/index.h"
#include "base/text.h"
#include "launch/trace/aligned.h"
#include "partitioner/plan/system.h"
#include "partitioner/simulator/plan_waits.h"

namespace hetpipe {
namespace {

struct Event {
  double start = 0;  // s, of one clock
  double end = 0;
  ActionKind kind = ActionKind::forward;
  Minibatch minibatch = 0;
  int micro = 0;
  int chunk = 0;
};

struct RecordedDevice {
  RecordedPlace place{};  // stage: position in the pipeline
  std::vector<Event> events;
};

std::optional<Timed> computing(ActionKind kind) {
  switch (kind) {
    case ActionKind::forward:
      return Timed::forward;
    case ActionKind::backward:
      return Timed::backward;
    case ActionKind::weight_gradient:
      return Timed::weight_gradient;
    case ActionKind::recompute:
      return Timed::recompute;
    case ActionKind::update:
      return Timed::update;
    default:
      return std::nullopt;
  }
}

std::vector<Event> events_of(const Trace& trace, const HostClock& clock, std::int64_t origin_ns) {
  std::vector<Event> events;
  for (const TraceEvent& event : trace.events) {
    events.push_back({clock.seconds(event.start_ns, origin_ns),
                      clock.seconds(event.end_ns, origin_ns), static_cast<ActionKind>(event.kind),
                      event.minibatch, event.micro_batch, event.chunk});
  }
  return events;
}

class RunReader {
 public:
  RunReader(const std::vector<Trace>& traces, const Plan& plan, const Profile& profile)
      : plan_(plan), system_(composition(plan)), awaited_(plan, profile) {
    take(traces);
    find_range();
    note_ends();
  }

  RecordedRun read() {
    RecordedRun run;
    double last = 0;
    for (const RecordedDevice& device : devices_) {
      double evaluated = 0;
      last = std::max(last, walk(device, evaluated));
      run.evaluation_seconds = std::max(run.evaluation_seconds, evaluated);
    }
    run.seconds = last - start_ - run.evaluation_seconds;
    run.durations = Durations(std::move(rows_));
    return run;
  }

 private:
  bool waves() const { return plan_.server && traits(system_.sync).waves(); }

  void take(const std::vector<Trace>& traces) {
    const std::map<std::string, HostClock> clocks = clocks_of(traces);
    std::int64_t origin = std::numeric_limits<std::int64_t>::max();
    for (const Trace& trace : traces) {
      if (trace.info.virtual_worker < 0 || trace.events.empty()) continue;
      origin = std::min(origin, trace.events.front().start_ns);
    }
    for (const RecordedPlace& place : awaited_.devices()) {
      const Trace* found = nullptr;
      for (const Trace& trace : traces) {
        const RecordedPlace of{static_cast<int>(trace.info.virtual_worker),
                               static_cast<int>(trace.info.stage),
                               static_cast<int>(trace.info.replica)};
        if (of != place || trace.events.empty()) continue;
        if (found != nullptr) refuse("two of its ranks are " + to_string(place));
        found = &trace;
      }
      if (found == nullptr) refuse("none of its ranks is " + to_string(place));
      devices_.push_back({place, events_of(*found, clocks.at(found->info.host), origin)});
    }
  }

  [[noreturn]] static void refuse(const std::string& what) {
    throw UserError("", "the trace is not of this plan, or not whole (" + what +
                            "). Give the plan of the run, and a run of this version that has "
                            "ended.");
  }

  // Minibatches of each virtual worker that all its devices have done.
  void find_range() {
    first_ = std::numeric_limits<Minibatch>::max();
    end_.assign(plan_.virtual_workers.size(), first_);
    start_ = std::numeric_limits<double>::infinity();
    for (const RecordedDevice& device : devices_) {
      Minibatch updated = 0;
      for (const Event& event : device.events) {
        if (!computing(event.kind)) continue;
        first_ = std::min(first_, event.minibatch);
        start_ = std::min(start_, event.start);
        if (event.kind == ActionKind::update) updated = std::max(updated, event.minibatch + 1);
      }
      Minibatch& end = end_[at(device.place.virtual_worker)];
      end = std::min(end, updated);
    }
    if (*std::min_element(end_.begin(), end_.end()) <= first_) {
      refuse("some rank has not ended a minibatch");
    }
  }

  // When each F, B and U ended, and when each device handed over its gradients.
  void note_ends() {
    for (const RecordedDevice& device : devices_) {
      double free = start_;
      for (const Event& event : device.events) {
        if (!computing(event.kind)) continue;
        if (event.kind == ActionKind::update) handed_over_[{device.place, event.minibatch}] = free;
        free = event.end;
        const RecordedPlace where = stage_of(device, event);
        ends_[{where, static_cast<char>(event.kind), event.minibatch, event.micro}] = event.end;
      }
    }
  }

  RecordedPlace stage_of(const RecordedDevice& device, const Event& event) const {
    RecordedPlace where = device.place;
    where.stage += event.chunk * awaited_.positions(where.virtual_worker);
    return where;
  }

  // Of one device: a row for everything that it computed, and for what it waited for. Returns when
  // it was done.
  double walk(const RecordedDevice& device, double& evaluated) {
    double free = start_;
    double done = start_;
    double evaluating = 0;  // since the last action that computed
    std::vector<const Event*> waits;
    for (const Event& event : device.events) {
      const auto what = computing(event.kind);
      if (event.kind == ActionKind::receive || event.kind == ActionKind::pull) {
        waits.push_back(&event);
      } else if (event.kind == ActionKind::evaluate) {
        evaluating += event.end - event.start;
        free = std::max(free, event.end);
      }
      if (!what) continue;
      double ready = free;
      free = event.end;
      const std::vector<const Event*> before = std::exchange(waits, {});
      if (event.minibatch >= end_[at(device.place.virtual_worker)]) continue;
      for (const Event* wait : before) ready = came(device, *wait, event, ready);
      if (event.kind == ActionKind::update) ready = summed(device, event, ready);
      add(stage_of(device, event), event, *what, event.end - ready);
      done = event.end;
      evaluated += std::exchange(evaluating, 0);
    }
    return done;
  }

  // What was waited for before an action, of which some may have come before: when the device had
  // both. On a device beside the host that is known by when it went on.
  double came(const RecordedDevice& device, const Event& wait, const Event& action, double ready) {
    const double when = std::min(wait.end, action.start);
    if (wait.kind == ActionKind::pull) return pulled(device, wait, when, ready);
    if (when <= ready) return ready;
    const bool forward = action.kind == ActionKind::forward;
    const RecordedPlace where = stage_of(device, action);
    double made = -std::numeric_limits<double>::infinity();
    for (const RecordedPlace& sender :
         awaited_.senders(where, forward ? Payload::activations : Payload::gradients)) {
      made = std::max(made, end_of(sender, forward ? 'F' : 'B', wait.minibatch, wait.micro));
    }
    // Clocks of two hosts may disagree by more than that.
    add(where, wait, forward ? Timed::activations : Timed::gradients, std::max(0.0, when - made));
    return when;
  }

  double pulled(const RecordedDevice& device, const Event& wait, double when, double ready) {
    if (!waves()) refuse("it has pulls, and the plan has no parameter server");
    const Minibatch length = plan_.wave_length();
    const Wave wave = wait.minibatch / length;
    const Label label = std::max<Label>(first_ / length, wave - plan_.server->clock_distance);
    const bool bounded = traits(system_.sync).bounded;
    double pushed = -std::numeric_limits<double>::infinity();
    if (label > first_ / length) {
      for (const RecordedDevice& other : devices_) {
        const Minibatch end = std::min(label * length, end_[at(other.place.virtual_worker)]);
        pushed = std::max(pushed, end_of(other.place, 'U', end - 1, 0));
      }
    }
    if (bounded && !plan_.server->pulls_newest()) {
      if (label == first_ / length || when <= ready) return std::max(ready, when);
      add(device.place, wait, Timed::snapshot, std::max(0.0, when - pushed));
      return when;
    }
    const double since = bounded && device.place.stage == 0 ? std::max(ready, pushed) : ready;
    add(device.place, wait, Timed::snapshot, std::max(0.0, when - since));
    return std::max(ready, when);
  }

  double summed(const RecordedDevice& device, const Event& update, double ready) {
    const Minibatch p = update.minibatch;
    const bool step = !traits(system_.weights).update_by_wave || (p + 1) % plan_.in_flight == 0 ||
                      p + 1 == end_[at(device.place.virtual_worker)];
    const std::vector<RecordedPlace>& sharers = awaited_.sharers(device.place);
    if (!step || sharers.size() < 2) return ready;
    double handed = -std::numeric_limits<double>::infinity();
    for (const RecordedPlace& other : sharers) {
      const auto found = handed_over_.find({other, p});
      if (found == handed_over_.end()) refuse_inside(other, 'U', p);
      handed = std::max(handed, found->second);
    }
    add(device.place, update, Timed::sum, std::max(0.0, update.start - handed));
    return std::max(ready, update.start);
  }

  double end_of(const RecordedPlace& where, char kind, Minibatch p, int micro) const {
    const auto found = ends_.find({where, kind, p, micro});
    if (found == ends_.end()) refuse_inside(where, kind, p);
    return found->second;
  }
  [[noreturn]] static void refuse_inside(const RecordedPlace& where, char kind, Minibatch p) {
    refuse(
        format("it lacks %c%lld of %s; a run that continues one exactly begins inside of its "
               "pipelines",
               kind, static_cast<long long>(p), to_string(where).c_str()));
  }

  void add(const RecordedPlace& where, const Event& of, Timed what, double seconds) {
    rows_.push_back({where, of.minibatch, of.micro, what, seconds});
  }

  const Plan& plan_;
  const System system_;
  const PlanWaits awaited_;
  std::vector<RecordedDevice> devices_;
  Minibatch first_ = 0;
  std::vector<Minibatch> end_;  // [virtual worker] one past the last
  double start_ = 0;            // s
  std::map<std::tuple<RecordedPlace, char, Minibatch, int>, double> ends_;
  std::map<std::pair<RecordedPlace, Minibatch>, double> handed_over_;
  std::vector<Duration> rows_;
};

}  // namespace

RecordedRun recorded_run(const std::vector<Trace>& traces, const Plan& plan,
                         const Profile& profile) {
  return RunReader(traces, plan, profile).read();
}

}  // namespace hetpipe
