// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "launch/command/options.h"
#include "launch/train/options.h"

namespace hetpipe {

// A resumed run has the options that it had: its config.toml, below what is given again. Call it
// once --resume and --output are read: it completes them (`--resume RUN` is `--output RUN
// --resume`), and sets `run_folder`. Nothing where no earlier run left its options: a fresh start,
// or a checkpoint that was copied out of its run directory.
std::vector<OptionsBelow> options_of_the_run(TrainOptions& options);

// The recipe's options, without what a plan that is there has settled, and below them those of the
// run that is resumed.
std::vector<OptionsBelow> train_options_below(TrainOptions& options, const OptionTable& table);

// What changed against the run, in one line; empty: nothing.
std::string changed_options(const OptionTable& table, const TrainOptions& options);

}  // namespace hetpipe
