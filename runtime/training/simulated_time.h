// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "partitioner/simulator/timeline.h"
#include "runtime/pipeline/reports.h"
#include "runtime/training/job.h"
#include "runtime/training/roles.h"

// A run whose clock is simulated (TrainJob::time) computes as fast as it can; what it says about
// time is the simulator's.
namespace hetpipe {

// Null without TrainJob::time. Times count from where the pipelines were empty last.
std::shared_ptr<const Timeline> make_timeline(const TrainJob& job);

// Labels that depend on time are those of the timeline, which must outlive the rules.
void grant_by(const Timeline& timeline, WaveRules& rules);

// The times of one rank, put in place of those that it took.
class SimulatedRank {
 public:
  SimulatedRank(const Timeline& timeline, const WaveRules& rules, const Role::Worker& role);

  void put_into(ActionRecord& record);
  void put_into(WaveReport& report);        // of waves in their order
  void put_into(RankReport& report) const;  // after those of all waves

 private:
  double end_of(Minibatch p) const;

  const Timeline::Row& row_;
  Minibatch first_;         // of the timeline
  Minibatch next_;          // that no report has been of
  double started_;          // s
  double reported_;         // s, the end of the last wave
  double recorded_;         // s, of the last action
  MinibatchTimes total_{};  // of all reported
};

// Why a plan's times cannot be those of another plan's training; empty: they can.
std::string why_not_time_of(const Plan& time, const Plan& plan);

}  // namespace hetpipe
