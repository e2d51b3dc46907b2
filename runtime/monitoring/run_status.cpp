// SPDX-License-Identifier: Apache-2.0
#include "runtime/monitoring/run_status.h"


namespace hetpipe {

WaitSeconds& WaitSeconds::operator+=(const WaitSeconds& other) {
  bubble += other.bubble;
  transfer += other.transfer;
  server += other.server;
  data += other.data;
  return *this;
}

double RunStatus::epoch() const {
  return dataset_size > 0 ? static_cast<double>(samples) / static_cast<double>(dataset_size) : 0;
}

WaitSeconds waited_by(const RunStatus& status, int virtual_worker) {
  WaitSeconds waited;
  for (const RankStatus& rank : status.ranks) {
    if (rank.virtual_worker == virtual_worker) waited += rank.waited;
  }
  return waited;
}

}  // namespace hetpipe
