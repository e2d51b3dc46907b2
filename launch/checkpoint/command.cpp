// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "launch/command/subcommand.h"

namespace hetpipe {
namespace {

constexpr std::array kCheckpointActions{
    Subcommand{"info", "shows what a checkpoint holds", checkpoint_info},
    Subcommand{"verify", "checks whether checkpoints are complete and undamaged",
               checkpoint_verify},
    Subcommand{"diff", "compares two checkpoints", checkpoint_diff},
    Subcommand{"export", "writes a checkpoint's tensors for PyTorch or NumPy", checkpoint_export},
    Subcommand{"import", "turns a state_dict of PyTorch into a checkpoint", checkpoint_import},
};

}  // namespace

int checkpoint_command(const Invocation& how) {
  return run_action(
      {"checkpoint", "FILE... [options]",
       "Shows, verifies, compares and exports checkpoints. FILE is a checkpoint, or a run "
       "directory, whose newest complete checkpoint is used.",
       kCheckpointActions},
      how);
}

}  // namespace hetpipe
