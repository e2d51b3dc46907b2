// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/training/job.h"
#include "runtime/training/rank_device.h"
#include "runtime/training/rank_facts.h"
#include "runtime/training/roles.h"

namespace hetpipe {

// UserError if a launch has another number of ranks than the plan needs.
void check_ranks(const TrainJob& job, std::optional<int> ranks, const std::string& command);
// Once the job is known: emulated links between machines, more threads than cores. UserError.
void check_together(const std::vector<RankFacts>& facts, const Roles& roles, const TrainJob& job,
                    const std::string& command);
// UserError if hosts and plan do not match.
Roles decide_roles(const TrainJob& job, const std::vector<RankFacts>& facts,
                   const std::string& command);
// A warning if workers that are not emulated have to share cores; else empty.
std::string shared_cores(const std::vector<RankFacts>& facts, const Roles& roles,
                         const TrainJob& job);

// A warning if workers are emulated and a link between ranks is not; else empty.
std::string links_without_time(const TrainJob& job, const Roles& roles);

// A warning if unlike devices make the same update of orthogonal changes, each for itself: products
// add up in orders of their own, and nothing but a server's snapshot brings their weights together
// again; else empty.
std::string unlike_replicas(const TrainJob& job, const Roles& roles,
                            const std::vector<RankDevice>& devices);

// The lines that start this job.
std::string launch_lines(const TrainJob& job, const std::string& command);

// Every rank: host, process, device, memory, cores, role.
std::string banner(const TrainJob& job, const Roles& roles, const std::vector<RankFacts>& facts,
                   const std::vector<RankDevice>& devices);

}  // namespace hetpipe
