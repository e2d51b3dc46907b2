// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launch/allocation/allocation.h"

// What Slurm's own commands report: their text is the same from version to version, their JSON
// is not available everywhere.
namespace hetpipe {

// The allocation of this process's job, with all components of a heterogeneous one, by
// `scontrol show job` and `scontrol show node`. UserError outside of a job; SystemError where
// scontrol cannot be run, fails, or does not answer.
Allocation slurm_allocation();

// "17", "17_3" of an array, "17" of a heterogeneous job; empty outside of a job.
std::string slurm_job_id();

// The GPUs given to jobs by `scontrol --oneliner show job --details`, by node.
struct GivenGpus {
  std::string node;
  std::vector<std::string> types;
};
std::vector<GivenGpus> given_gpus(std::string_view scontrol_jobs);

// Nodes from `scontrol --oneliner show node`: all GPUs that they have, features, whether
// they answer.
std::vector<AllocatedNode> described_nodes(std::string_view scontrol_nodes);

// The nodes of a partition that are not down, of `sinfo --noheader --Node
// --format=%N|%P|%G|%f|%T`; partition "": the default one, which sinfo marks by a star.
std::vector<AllocatedNode> listed_nodes(std::string_view sinfo, const std::string& partition);

// "gpu:titanv:1(S:0-1),gpu:a100:2(IDX:0-1)" as one type for each GPU; other resources are left out.
std::vector<std::string> gpu_types(std::string_view gres);

// The output of a Slurm command. SystemError: cannot be found or run, fails (with its output),
// or does not end within 30 s.
std::string ask_slurm(const std::vector<std::string>& words);

// A time limit as sbatch takes it, in seconds; nothing: it is none. Without a limit: the largest.
std::optional<std::int64_t> seconds_of_slurm_time(const std::string& text);

}  // namespace hetpipe
