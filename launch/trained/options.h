// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "launch/command/loss_options.h"
#include "launch/command/options.h"
#include "launch/command/sample_options.h"

// What every command that uses a trained model asks for.
namespace hetpipe {

struct TrainedOptions {
  std::string checkpoint;            // file, folder of checkpoints or run directory
  std::optional<std::string> model;  // absent: the run's or the checkpoint's
  std::optional<std::string> data;   // absent: the run's, if it is known
  std::optional<double> test_share;
  LossOptions loss;
  SampleOptions samples;
  std::string device = "auto";
  std::optional<std::string> precision;  // absent: the device's usual one
  int threads = 1;
  std::string run;  // config.toml of the run that options were taken from; empty: none
};

// The rows. Each command puts its own beside them.
Option checkpoint_argument(TrainedOptions& options);
Option trained_model_option(TrainedOptions& options);
Option trained_data_option(TrainedOptions& options, std::string help);
Option test_share_option(TrainedOptions& options);
OptionGroup trained_loss_options(TrainedOptions& options);  // those that an evaluation heeds
OptionGroup trained_device_options(TrainedOptions& options);

// The checkpoint of a run has its run's model, data and loss, where these are not given: for
// read_options(). A folder without a checkpoint is the problem of whoever reads it.
// With what happens to its samples, where the command has such options.
enum class OfImages { no, yes };
std::vector<OptionsBelow> options_of_its_run(TrainedOptions& options, OfImages images);
// Of a command that one process does: a problem where a launcher started several.
void check_one_process(const std::string& command, Problems& problems);
// Adds problems of rows by themselves.
void check_trained_options(const TrainedOptions& options, Problems& problems);

}  // namespace hetpipe
