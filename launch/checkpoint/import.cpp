// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <filesystem>

#include "launch/command/options.h"
#include "launch/command/output_file.h"
#include "launch/command/subcommand.h"
#include "runtime/model/graph/import.h"
#include "runtime/model/parameters.h"
#include "runtime/pipeline/optimizer.h"
#include "runtime/store/checkpoint.h"

namespace hetpipe {
namespace {

struct ImportCheckpointOptions {
  std::string file;
  std::optional<std::string> model;
  std::optional<std::string> output;
  std::string optimizer = "sgd-momentum";
  bool force = false;
};

OptionTable table_of(ImportCheckpointOptions& options) {
  return {
      "checkpoint import",
      "Turns a state_dict of an exported PyTorch model into a checkpoint, which hetpipe train "
      "--resume starts from: no sample consumed, the optimizer's state zero.",
      {{"What to import",
        {
            argument(text_option("file", "FILE", options.file, "The state_dict, X.safetensors.")),
            required(text_option("model", "DIR", options.model,
                                 "Folder of the exported model whose state_dict it is.")),
            required(text_option("output", "FILE", options.output, "The checkpoint to write.")),
            choice_option("optimizer", options.optimizer, {"sgd", "sgd-momentum", "adam"},
                          "The optimizer that it will be trained with."),
            flag_option("force", options.force, "Overwrites the output file if it exists."),
        }}}};
}

std::vector<NamedTensor> tensors_of(const ParameterLayout& layout, bool zero) {
  std::vector<float> values(static_cast<std::size_t>(layout.count()));
  if (!zero) fill_initial(layout, 1, values);
  std::vector<NamedTensor> tensors;
  for (const ParameterEntry& entry : layout.entries()) {
    if (!entry.is_own()) continue;
    const auto first = values.begin() + entry.offset;
    tensors.push_back({entry.name, entry.file_shape, {first, first + entry.count}, kTorchOrder});
  }
  return tensors;
}

}  // namespace

int checkpoint_import(const Invocation& how) {
  ImportCheckpointOptions options;
  OptionTable table = table_of(options);
  if (!read_options(table, how, [&](Problems& problems) {
        if (!options.output) return;
        check_output_file("--output", *options.output, problems);
        std::error_code code;
        if (!options.force && std::filesystem::exists(*options.output, code)) {
          problems.add("--output", *options.output +
                                       " (already exists). Give another name, or --force to "
                                       "overwrite it.");
        }
      })) {
    return 0;
  }
  const Model model =
      import_model(*options.model, {.loss = {.name = kAnyLoss}, .init = options.file});
  const auto parameters = ParameterLayout::parameters(model, 0, model.layer_count());
  Checkpoint checkpoint;
  checkpoint.model = model.name();
  checkpoint.model_fingerprint = model.fingerprint();
  checkpoint.system = "import";
  TrainedOn& of = checkpoint.trained_on.emplace();
  for (int d = 0; d < model.sample_shape().rank(); ++d) {
    of.sample_shape.push_back(model.sample_shape()[d]);
  }
  of.classes = model.classes();
  checkpoint.worker_minibatches = 0;
  checkpoint.optimizer = options.optimizer;
  checkpoint.parameters = tensors_of(parameters, false);
  checkpoint.statistics =
      tensors_of(ParameterLayout::statistics(model, 0, model.layer_count()), false);
  for (const std::string& slot : optimizer_slot_names(options.optimizer)) {
    checkpoint.slots[slot] = tensors_of(parameters, true);
  }
  write_checkpoint(*options.output, checkpoint);
  std::printf("%zu parameters of %s written to %s\n", checkpoint.parameters.size(),
              options.file.c_str(), options.output->c_str());
  return 0;
}

}  // namespace hetpipe
