// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launch/probe/conduct.h"
#include "launch/probe/probed.h"

namespace hetpipe {

struct MeasureSetup {
  double seconds = 10;        // for everything together, approximately; half of it for links
  double link_deadline = 10;  // s without an answer, in addition to a link's own time
  int threads = 1;            // of a CPU device
};

// One rank's part in measuring a pool: what its device does, and its end of links. All ranks make
// one with the same arguments but for the transport, and it has to outlive the transport where a
// link did not answer.
class PoolMeasurement {
 public:
  PoolMeasurement(Pool pool, Transport& transport, const MeasureSetup& setup);
  ~PoolMeasurement();

  // Rank 0: kind after kind, then link after link, while all others are idle.
  Probed measure();
  // The others: until they are dismissed, with this exit code.
  int take_part();
  // This rank has messages in transit that may never arrive: MPI would not end by itself.
  bool waits_for_lost_messages() const;

 private:
  std::string act(int step);
  std::string measure_kind(const PoolKind& kind);
  std::string test_link(const LinkTest& test);
  LinkEnd& link_end();

  const Pool pool_;
  Transport& transport_;
  const MeasureSetup setup_;
  const std::vector<LinkTest> tests_;
  std::vector<ProbeStep> steps_;  // kinds, then tests
  double seconds_of_kind_ = 0;
  double seconds_of_link_ = 0;
  double deadline_of_link_ = 0;
  std::unique_ptr<Device> device_;  // of the links' end
  std::optional<LinkEnd> end_;
};

}  // namespace hetpipe
