// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "partitioner/schedule/schedule.h"

// Where a schedule's passes continue: virtual stage c p + i is chunk c of the model, device i of p.
namespace hetpipe {

struct VirtualStages {
  int devices = 1;
  int chunks = 1;
  explicit VirtualStages(const Schedule& schedule);

  int count() const { return devices * chunks; }
  int of(int device, int chunk) const { return chunk * devices + device; }
  bool has_next(int device, int chunk) const { return of(device, chunk) + 1 < count(); }
  bool has_previous(int device, int chunk) const { return of(device, chunk) > 0; }
};

// The action that an F (by = -1) or B (by = 1), or the S that a V waits for, needs from the virtual
// stage before or after it.
struct Needed {
  std::size_t device;
  Action action;
};
Needed neighbour(const VirtualStages& stages, std::size_t device, Action action, int by);

// B or W: a minibatch is done at a stage with the last of them.
inline bool is_backward(const Action& action) {
  return action.kind == ActionKind::backward || action.kind == ActionKind::weight_gradient;
}

}  // namespace hetpipe
