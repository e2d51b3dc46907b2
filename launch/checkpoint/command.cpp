// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "launch/command/subcommand.h"

namespace hetpipe {
namespace {

constexpr std::array kCheckpointActions{
    Subcommand{"info", "says what a checkpoint holds", checkpoint_info},
    Subcommand{"verify", "tells whether checkpoints are what was written", checkpoint_verify},
    Subcommand{"diff", "compares two checkpoints", checkpoint_diff},
    Subcommand{"export", "writes a checkpoint's tensors for PyTorch or NumPy", checkpoint_export},
};

}  // namespace

int checkpoint_command(const Invocation& how) {
  return run_action(
      {"checkpoint", "FILE... [options]",
       "Looks into checkpoints. FILE is one, or a run's directory: then its newest complete "
       "one.",
       kCheckpointActions},
      how);
}

}  // namespace hetpipe
