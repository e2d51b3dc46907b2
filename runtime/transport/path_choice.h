// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "runtime/transport/device_path.h"

// Which path between two devices is worth a try, from what their ranks report. Pure, so
// that pools that do not exist can be tested.
namespace hetpipe {

struct PathEnd {
  std::string machine;         // the same text where ranks share a running machine
  int process = 0;             // ranks may be threads of one
  std::string device = "cpu";  // Device::kind()
  std::string uuid{};          // of a card
  bool host_memory = true;     // any transport reaches the device's memory
  bool nccl = false;
  std::string why_no_nccl{};
  bool mpi_reaches_gpus = false;  // according to the MPI library
};

struct PathChoice {
  PathKind kind = PathKind::staged;
  std::string why;  // staged, if a rank has memory of its own: why not the others
};

// "auto" prefers NCCL, then memory shared within a machine, then MPI where that reaches the cards,
// then staging. A path that is requested but unavailable becomes staging too, with the reason.
PathChoice choose_path(const PathEnd& a, const PathEnd& b, std::optional<PathKind> wanted);

// "auto" is nullopt; UserError for other names than those of PathKind.
std::optional<PathKind> path_named(const std::string& name);

}  // namespace hetpipe
