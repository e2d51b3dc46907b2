// SPDX-License-Identifier: Apache-2.0
#include "launch/doctor/planned_run.h"

#include <algorithm>
#include <functional>

#include "base/text.h"
#include "launch/allocation/slurm.h"
#include "partitioner/plan/unmeasured.h"

namespace hetpipe {
namespace {

int layers_of(const Plan& plan) {
  int layers = 0;
  for (const PlanVirtualWorker& vw : plan.virtual_workers) {
    for (const PlanStage& stage : vw.stages) layers = std::max(layers, stage.end_layer);
  }
  return layers;
}

void load_plan_of(const DoctorOptions& options, PlannedRun& run) {
  TrainJob& job = run.job;
  if (job.cluster && job.profile) {
    job.plan = load_plan(*options.plan, *job.cluster, *job.profile);
  } else {
    job.plan = load_plan_of(*options.plan, options.planning);
    const int layers =
        job.profile ? static_cast<int>(job.profile->layers.size()) : layers_of(job.plan);
    check_plan(job.plan, *options.plan, job.cluster ? &*job.cluster : nullptr, layers);
  }
  job.model.name = job.plan.model;
  run.has_plan = true;
  if (!job.cluster || !job.profile || job.cluster->emulated()) return;
  for (const UnmeasuredTimes& times : unmeasured_times(job.plan, *job.cluster, *job.profile)) {
    run.notes.push_back(format(
        "%s ('%s' was not measured, so the plan may be far from the best). Run hetpipe profile "
        "--model %s on such a device, and plan again.",
        times.text.c_str(), times.kind.c_str(), job.model.name.c_str()));
  }
}

// Nothing if there is none, or if it is wrong, which load_plan_of says.
std::optional<Plan> try_plan(const DoctorOptions& options) {
  if (!options.plan) return std::nullopt;
  try {
    return load_plan_of(*options.plan, options.planning);
  } catch (const UserError&) {
    return std::nullopt;
  }
}

bool on_allocation(const DoctorOptions& options) {
  return options.planning.cluster == "slurm" || options.planning.cluster == "ranks";
}

// Of an allocation without a pool nothing is known but what the scheduler calls its GPUs.
void load_allocation(const DoctorOptions& options, const std::vector<std::string>& host_of_rank,
                     PlannedRun& run) {
  if (options.plan) {
    throw UserError("--cluster", "cannot be " + *options.planning.cluster +
                                     " together with --plan (a plan names its devices). Leave "
                                     "--plan out, or give the plan's cluster file.");
  }
  const Allocation allocation =
      options.planning.cluster == "slurm" ? slurm_allocation() : hosts_allocation(host_of_rank);
  run.files = allocation.of;
  run.from_allocation = true;
  run.from_pool = options.pool.has_value();
  run.job.cluster = options.pool
                        ? cluster_of(allocation, load_cluster(*options.pool), *options.pool)
                        : plain_cluster(allocation);
}

}  // namespace

PlannedRun read_planned_run(const DoctorOptions& options,
                            const std::vector<std::string>& host_of_rank) {
  PlannedRun run;
  std::vector<std::string> files;
  const auto read = [&](const std::optional<std::string>& file, const std::function<void()>& act) {
    if (!file) return;
    files.push_back(*file);
    try {
      act();
    } catch (const UserError& error) {
      run.problems.insert(run.problems.end(), error.problems().begin(), error.problems().end());
    }
  };
  TrainJob& job = run.job;
  if (on_allocation(options)) {
    read(options.planning.cluster, [&] {
      load_allocation(options, host_of_rank, run);
      files.back() = run.files;
    });
    if (options.pool) files.push_back(*options.pool);
  } else {
    read(options.planning.cluster, [&] { job.cluster = load_cluster(*options.planning.cluster); });
    if (options.pool) {
      run.problems.push_back({"--pool",
                              "has no effect without --cluster slurm or --cluster ranks (a cluster "
                              "file already lists the devices). Leave it out."});
    }
  }
  read(options.planning.profile, [&] {
    const std::optional<Plan> plan = try_plan(options);
    job.profile =
        load_profile_of(options.planning, job.cluster.value_or(Cluster{}), plan ? &*plan : nullptr);
  });
  read(options.plan, [&] { load_plan_of(options, run); });
  run.files = join(files, ", ");
  job.sample = Shape{1};  // no data are looked at
  job.device = options.device;
  job.threads = options.threads;
  job.keep_checkpoints = options.keep;
  return run;
}

}  // namespace hetpipe
