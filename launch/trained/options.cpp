// SPDX-License-Identifier: Apache-2.0
#include "launch/trained/options.h"

#include <filesystem>

#include "base/precision.h"
#include "base/text.h"
#include "kernels/devices.h"
#include "launch/command/model_name.h"
#include "launch/launcher/launched.h"
#include "runtime/model/zoo.h"

namespace hetpipe {

Option checkpoint_argument(TrainedOptions& options) {
  return argument(text_option("checkpoint", "CHECKPOINT", options.checkpoint,
                              "A checkpoint, a folder of checkpoints or a run directory; of a "
                              "folder, the newest complete checkpoint is used."));
}

Option trained_model_option(TrainedOptions& options) {
  return unset_means("that of the run or of the checkpoint",
                     offering(model_names(), text_option("model", "NAME|DIR", options.model,
                                                         "Name of the built-in model, or folder of "
                                                         "the exported one, that was trained.")));
}

Option trained_data_option(TrainedOptions& options, std::string help) {
  return text_option("data", "DATA", options.data, std::move(help));
}

Option test_share_option(TrainedOptions& options) {
  return unset_means("that of the run",
                     real_option("test-share", "F", options.test_share, {0, 1, true},
                                 "Of data without test samples: the share of each class's samples "
                                 "that the training kept for testing."));
}

OptionGroup trained_loss_options(TrainedOptions& options) {
  OptionGroup group = loss_options(options.loss);
  std::erase_if(group.options,
                [](const Option& option) { return option.name == "label-smoothing"; });
  return group;
}

OptionGroup trained_device_options(TrainedOptions& options) {
  return {
      "This machine",
      {
          choice_option("device", options.device, device_names(),
                        "Device to compute on: a GPU if there is one, otherwise the CPU (auto); "
                        "oneDNN (cpu); a GPU (cuda). For testing: plain loops (reference), the "
                        "CPU with streams and memory like a GPU's (offload)."),
          unset_means("what suits the device",
                      choice_option("precision", options.precision, precision_names(),
                                    "Arithmetic of a GPU.")),
          integer_option("threads", "N", options.threads, {1, 1024}, "Threads of a CPU."),
      }};
}

std::vector<OptionsBelow> options_of_its_run(TrainedOptions& options, OfImages images) {
  namespace fs = std::filesystem;
  if (options.checkpoint.empty()) return {};
  const fs::path given = options.checkpoint;
  std::error_code code;
  fs::path run = given;
  if (!fs::is_directory(given, code)) run = fs::absolute(given).parent_path();
  if (run.filename() == "checkpoints") run = run.parent_path();
  const fs::path file = run / "config.toml";
  if (!fs::is_regular_file(file, code)) return {};
  options.run = file.string();
  OptionsBelow below{.file = options.run, .without = {}};
  below.only = {"model", "loss", "ignore-index", "class-weights", "auxiliary-weights", "data"};
  if (images == OfImages::yes) {
    below.only.insert(below.only.end(), {"train-transforms", "test-transforms", "normalize"});
  }
  // Which samples of other data it would keep is not what the run kept.
  if (!options.data) below.only.emplace_back("test-share");
  return {below};
}

void check_one_process(const std::string& command, Problems& problems) {
  const auto here = launched();
  if (!here || here->ranks == 1) return;
  problems.add("",
               format("hetpipe %s computes in one process (%s has started %d). Start it without "
                      "a launcher.",
                      command.c_str(), here->by.c_str(), here->ranks));
}

void check_trained_options(const TrainedOptions& options, Problems& problems) {
  if (options.model) check_model_name("--model", *options.model, problems);
}

}  // namespace hetpipe
