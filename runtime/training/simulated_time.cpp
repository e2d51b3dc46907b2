// SPDX-License-Identifier: Apache-2.0
#include "runtime/training/simulated_time.h"

#include <algorithm>

#include "base/index.h"
#include "base/text.h"
#include "base/time.h"
#include "partitioner/plan/system.h"
#include "partitioner/simulator/gantt.h"

namespace hetpipe {
std::shared_ptr<const Timeline> make_timeline(const TrainJob& job) {
  if (!job.time) return nullptr;
  const Sampler sampler = make_sampler(job);
  const WaveRules rules = make_wave_rules(job, sampler);
  const Minibatch last = *std::max_element(rules.end.begin(), rules.end.end());
  return std::make_shared<Timeline>(job.time->plan, job.time->cluster, job.time->profile,
                                    std::max<Minibatch>(1, last - rules.first_minibatch()));
}

void grant_by(const Timeline& timeline, WaveRules& rules) {
  if (rules.pull == PullRule::bound) return;
  if (rules.by_arrival()) {
    rules.passed = [&timeline, first = rules.first_wave](VirtualWorkerId vw, Wave wave) {
      return timeline.passed(vw, wave - first);
    };
    return;
  }
  rules.granted = [&timeline, first = rules.first_wave](VirtualWorkerId vw, Wave wave) {
    return first + timeline.label(vw, wave - first).value_or(0);
  };
}

SimulatedRank::SimulatedRank(const Timeline& timeline, const WaveRules& rules,
                             const Role::Worker& role)
    : row_(timeline.row(role.virtual_worker, role.stage().value, role.replica)),
      first_(rules.first_minibatch()),
      next_(rules.start_minibatch()),
      started_(end_of(next_ - 1)),
      reported_(started_),
      recorded_(started_) {}

double SimulatedRank::end_of(Minibatch p) const { return p < first_ ? 0 : row_.of(p - first_).end; }

// What the simulation leaves out (evaluations) takes no time. As of a real clock, what is computed
// has the device's times, without what it waited for.
void SimulatedRank::put_into(ActionRecord& record) {
  const Action action{.kind = record.kind,
                      .minibatch = record.minibatch - first_,
                      .micro = record.micro,
                      .chunk = record.chunk,
                      .payload = record.payload};
  const auto span = row_.of(action);
  if (span) recorded_ = span->end;
  double start = span ? span->start : recorded_;
  if (span && computes(record.kind)) start = std::max(start, span->end - span->busy);
  record.start_ns = to_ns(start);
  record.end_ns = to_ns(recorded_);
}

void SimulatedRank::put_into(WaveReport& report) {
  MinibatchTimes wave;
  for (; next_ <= report.last_minibatch; ++next_) {
    wave += row_.of(next_ - first_);
  }
  const double end = end_of(report.last_minibatch);
  report.elapsed_seconds = end - reported_;
  report.evaluated_seconds = 0;
  report.server_wait_seconds = wave.server_wait;
  report.compute_seconds = wave.forward + wave.backward;
  reported_ = end;
  total_ += wave;
  report.waits = {total_.bubble, total_.transfer, total_.server_wait, 0};
}

void SimulatedRank::put_into(RankReport& report) const {
  report.total_seconds = reported_ - started_;
  report.forward_seconds = total_.forward;
  report.backward_seconds = total_.backward;
  report.update_seconds = total_.update;
  report.transfer_seconds = total_.transfer;
  // A virtual worker may have a minibatch less than the simulation, which it would have begun.
  const double known = total_.busy() + total_.waiting();
  report.bubble_seconds = total_.bubble + std::max(0.0, report.total_seconds - known);
  report.server_wait_seconds = total_.server_wait;
  report.evaluate_seconds = report.data_seconds = report.unfed_seconds = 0;
  report.paced_actions = report.overruns = 0;
  report.overrun_seconds = report.late_seconds = 0;
}

std::string why_not_time_of(const Plan& time, const Plan& plan) {
  const auto differ = [](const char* what, const std::string& its, const std::string& own) {
    return its == own ? std::string()
                      : format("it has %s %s, the plan that is trained %s", what, its.c_str(),
                               own.c_str());
  };
  const auto number = [](auto value) { return std::to_string(value); };
  const System its = composition(time);
  const System own = composition(plan);
  std::vector<std::string> all{
      differ("the schedule", std::string(to_string(its.schedule)),
             std::string(to_string(own.schedule))),
      differ("the synchronisation", std::string(to_string(its.sync)),
             std::string(to_string(own.sync))),
      differ("minibatches in flight:", number(time.in_flight), number(plan.in_flight)),
      differ("micro-batches:", number(time.micro_batches), number(plan.micro_batches)),
      differ("virtual workers:", number(time.virtual_workers.size()),
             number(plan.virtual_workers.size()))};
  if (time.server && plan.server) {
    all.push_back(differ("a clock distance of", number(time.server->clock_distance),
                         number(plan.server->clock_distance)));
    all.push_back(
        differ("waves in a round:", number(time.server->round), number(plan.server->round)));
    const auto pull = [](const Plan& of) {
      return std::string(of.server->pulls_newest() ? "newest" : "bound");
    };
    all.push_back(differ("pull", pull(time), pull(plan)));
  }
  const std::size_t workers = std::min(time.virtual_workers.size(), plan.virtual_workers.size());
  for (std::size_t i = 0; i < workers; ++i) {
    const VirtualWorkerId vw{static_cast<int>(i)};
    const std::string of = format(" (virtual worker %zu)", i);
    const auto shape = [](const PlanVirtualWorker& worker) {
      std::vector<std::string> replicas;
      for (const PlanStage& stage : worker.stages) {
        replicas.push_back(std::to_string(stage.devices.size()));
      }
      return join(replicas, "+");
    };
    all.push_back(differ("minibatches of", number(time.minibatch_of(vw)) + of,
                         number(plan.minibatch_of(vw)) + of));
    all.push_back(differ("replicas of its stages", shape(time.virtual_workers[i]) + of,
                         shape(plan.virtual_workers[i]) + of));
  }
  const auto first = std::find_if(all.begin(), all.end(), [](const auto& a) { return !a.empty(); });
  return first == all.end() ? std::string() : *first;
}

}  // namespace hetpipe
