// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "launch/train/options.h"
#include "runtime/training/job.h"
#include "runtime/training/run_directory.h"

namespace hetpipe {

struct Ground;

// What the first rank derives from the options, before it tells the others.
struct Preparation {
  TrainJob job;
  std::optional<RunDirectory> directory;  // holds the lock as long as it lives
  std::string table;                      // the plan as text
  std::string resumed;                    // how a resumed run continues
  std::vector<Problem> damaged;           // checkpoints that it passed over
  std::string ended;                      // why there is nothing left to train; empty: there is
  std::vector<std::string> notes;         // of what the plan was made for
};
// Reads files, decides what they leave open, checks (prepare_parts.h). UserError; writes nothing.
// ranks: of this launch; nothing where they follow from the plan. launch_command: the words that
// started them, for messages that print the right launch line. ground: in place of files, where
// this launch's own devices are asked for.
Preparation prepare_training(const TrainOptions& options, std::optional<int> ranks,
                             const std::string& launch_command, Log& log,
                             const Ground* ground = nullptr);
// Creates the run directory and writes what was decided; the job gets its folders.
void take_run_directory(const TrainOptions& options, const std::string& configuration,
                        Preparation& prepared, Log& log);

}  // namespace hetpipe
