// SPDX-License-Identifier: Apache-2.0
#include "launch/train/simulated_clock.h"

#include "launch/command/said_of.h"
#include "launch/plan/options.h"
#include "partitioner/cluster/cluster.h"
#include "partitioner/plan/plan.h"
#include "partitioner/profile/profile.h"
#include "partitioner/simulator/simulate.h"
#include "runtime/training/simulated_time.h"

namespace hetpipe {

OptionGroup clock_options(ClockOptions& options) {
  return {
      "Time",
      {
          choice_option("clock", options.clock, {"real", "simulated"},
                        "Real time, with devices and links slowed down where the cluster is "
                        "emulated; or simulated: computes as fast as this machine does, on any "
                        "cluster, and every time in the log, the trace and the result is that of "
                        "hetpipe simulate. Labels that depend on time (--pull newest, asp) follow "
                        "from it, so runs repeat."),
          unset_means("the run's own plan",
                      text_option("time-of", "PLAN", options.time_of,
                                  "Simulated: takes the times from this plan, with as many virtual "
                                  "workers, stages and minibatches in flight, but of another "
                                  "model.")),
          unset_means("--cluster", text_option("time-cluster", "FILE", options.time_cluster,
                                               "Cluster file of the plan of --time-of.")),
          text_option("time-profile", "FILE", options.time_profile,
                      "Profile of the plan of --time-of."),
      }};
}

void check_clock_options(const ClockOptions& options, Problems& problems) {
  const auto needs = [&](bool given, const char* name, bool has, const char* what) {
    if (given && !has) {
      problems.add(name, std::string("has no effect without ") + what + ". Add it, or leave " +
                             name + " out.");
    }
  };
  needs(options.time_of.has_value(), "--time-of", options.simulated(), "--clock simulated");
  needs(options.time_cluster.has_value(), "--time-cluster", options.time_of.has_value(),
        "--time-of");
  needs(options.time_profile.has_value(), "--time-profile", options.time_of.has_value(),
        "--time-of");
  if (options.time_of && !options.time_profile) {
    problems.add("--time-of",
                 "needs the profile that its plan was made with. Give --time-profile "
                 "FILE.");
  }
}

std::optional<SimulatedTime> simulated_time(const ClockOptions& options, const TrainJob& job) {
  if (!options.simulated()) return std::nullopt;
  SimulatedTime time;
  if (options.time_cluster) {
    time.cluster = load_cluster(*options.time_cluster);
  } else if (job.cluster) {
    time.cluster = *job.cluster;
  } else {
    throw UserError("--clock", "simulated needs the cluster. Give --cluster FILE.");
  }
  if (options.time_of) {
    time.of = *options.time_of;
    PlanningOptions planned;
    planned.profile = options.time_profile;
    time.plan = load_plan_of(time.of, planned);
    time.profile = load_profile_of(planned, time.cluster, &time.plan);
    const std::string why_not = why_not_time_of(time.plan, job.plan);
    if (!why_not.empty()) {
      throw UserError(time.of, "cannot give this training its times: " + why_not +
                                   ". Plan both models with the same options.");
    }
  } else {
    time.plan = job.plan;
    if (!job.profile) {
      throw UserError("--clock", "simulated needs the profile of the model. Give --profile FILE.");
    }
    time.profile = *job.profile;
  }
  // Whether it can be simulated is said before anything is trained.
  SimulationRequest request;
  request.ledgers = false;
  said_of(time.of.empty() ? "--clock" : time.of,
          [&] { return simulate(time.plan, time.cluster, time.profile, request); });
  return time;
}

}  // namespace hetpipe
