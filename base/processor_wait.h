// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/file_descriptor.h"

namespace hetpipe {

// How long the thread that makes this is ready to run while others have the processors: the
// scheduler's own account (run delay, in /proc/thread-self/schedstat). What is left of a measured
// time without it is the thread's own, however busy the machine: that of a throttled or stopped
// thread grows, that of one that shares its processor does not.
class ProcessorWait {
 public:
  ProcessorWait();
  // Since the thread's start; always 0 where the kernel keeps no account. Costs about 1 us.
  double seconds() const;

 private:
  OpenFile file_;
};

}  // namespace hetpipe
