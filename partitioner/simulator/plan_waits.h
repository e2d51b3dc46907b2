// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "partitioner/plan/plan.h"
#include "partitioner/profile/profile.h"
#include "partitioner/schedule/schedule.h"
#include "partitioner/simulator/durations.h"

// Whose work the actions of a plan wait for, without any time.
namespace hetpipe {

class PlanWaits {
 public:
  PlanWaits(const Plan& plan, const Profile& profile);

  // A device is named by the first of its stages.
  const std::vector<RecordedPlace>& devices() const { return devices_; }
  // Of a virtual worker; stage j is on the devices of position j % positions.
  int positions(int virtual_worker) const {
    return positions_[static_cast<std::size_t>(virtual_worker)];
  }
  // Those from which a replica of a stage gets the activations of a micro-batch, or the gradients.
  const std::vector<RecordedPlace>& senders(const RecordedPlace& to, Payload payload) const;
  // The devices whose gradients are in the sums that the update of this one waits for, itself
  // included; fewer than two: it waits for none.
  const std::vector<RecordedPlace>& sharers(const RecordedPlace& device) const;

 private:
  void add_senders(const Plan& plan, const Profile& profile, int virtual_worker);

  std::vector<RecordedPlace> devices_;
  std::vector<int> positions_;
  std::map<std::pair<RecordedPlace, Payload>, std::vector<RecordedPlace>> senders_;
  std::map<RecordedPlace, std::vector<RecordedPlace>> sharers_;
};

}  // namespace hetpipe
