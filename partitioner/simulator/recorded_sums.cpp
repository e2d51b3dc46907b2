// SPDX-License-Identifier: Apache-2.0
#include "partitioner/simulator/recorded_sums.h"

#include <map>

#include "base/index.h"

namespace hetpipe {

RecordedSums::RecordedSums(const Profile& profile, std::span<const PlanProcess> processes,
                           ReduceScope scope, int minibatches, EngineJob& job)
    : counted_by_(processes.size()) {
  std::map<std::vector<int>, int> groups;
  for (const std::vector<int>& members : sharers(profile, processes, scope)) {
    if (members.size() < 2) {
      group_of_.push_back(-1);
      continue;
    }
    const auto [group, added] = groups.try_emplace(members, static_cast<int>(groups.size()));
    group_of_.push_back(group->second);
    if (!added) continue;
    first_signal_.push_back(static_cast<int>(job.signals.size()));
    job.signals.resize(job.signals.size() + at(minibatches),
                       {static_cast<std::int32_t>(members.size())});
    for (const int member : members) counted_by_[at(member)].push_back(group->second);
  }
}

void RecordedSums::join(EngineJob& job, int process, Minibatch p) const {
  for (const int group : counted_by_[at(process)]) {
    job.arrive(first_signal_[at(group)] + static_cast<int>(p));
  }
}

void RecordedSums::wait(EngineJob& job, int process, Minibatch p, double seconds) const {
  job.wait(first_signal_[at(group_of_[at(process)])] + static_cast<int>(p), seconds);
}

}  // namespace hetpipe
