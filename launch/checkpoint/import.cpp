// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <filesystem>

#include "base/text.h"
#include "launch/command/model_name.h"
#include "launch/command/options.h"
#include "launch/command/output_file.h"
#include "launch/command/sample_shape.h"
#include "launch/command/subcommand.h"
#include "partitioner/plan/optimizer_rule.h"
#include "runtime/model/graph/import.h"
#include "runtime/model/parameters.h"
#include "runtime/model/state_names.h"
#include "runtime/model/zoo.h"
#include "runtime/store/checkpoint.h"

namespace hetpipe {
namespace {

struct ImportCheckpointOptions {
  std::string file;
  std::optional<std::string> model;
  std::optional<std::string> sample;
  std::optional<int> classes;
  std::optional<std::string> output;
  std::string optimizer = "sgd-momentum";
  bool force = false;
};

OptionTable table_of(ImportCheckpointOptions& options) {
  return {
      "checkpoint import",
      "Turns a state_dict of PyTorch into a checkpoint, which hetpipe train --resume starts from "
      "(no "
      "sample consumed, the optimizer's state zero) and hetpipe evaluate, predict and generate "
      "read.",
      {{"What to import",
        {
            argument(text_option("file", "FILE", options.file, "The state_dict, X.safetensors.")),
            required(offering(model_names(),
                              text_option("model", "NAME|DIR", options.model,
                                          "The model whose state_dict it is: a built-in one, or "
                                          "the folder of an exported one."))),
            text_option("sample", "HxWxC", options.sample,
                        "Of a built-in model: rows, columns and channels of a sample, or T, its "
                        "tokens."),
            integer_option("classes", "N", options.classes, {2, 1e9},
                           "Of a built-in model: how many classes it has."),
            required(text_option("output", "FILE", options.output, "The checkpoint to write.")),
            choice_option("optimizer", options.optimizer, optimizer_names(),
                          "The optimizer that it will be trained with."),
            flag_option("force", options.force, "Overwrites the output file if it exists."),
        }}}};
}

std::vector<NamedTensor> tensors_of(const Model& model, const ParameterLayout& layout, bool zero) {
  std::vector<float> values(static_cast<std::size_t>(layout.count()));
  if (!zero) fill_initial(layout, 1, values);
  std::vector<NamedTensor> tensors;
  for (const ParameterEntry& entry : layout.entries()) {
    if (!entry.is_own()) continue;
    const auto first = values.begin() + entry.offset;
    const std::string order =
        entry.torch ? kTorchOrder : order_of(model.layer(entry.layer).spec, entry.shape.shape);
    tensors.push_back({entry.name, entry.file_shape, {first, first + entry.count}, order});
  }
  return tensors;
}

void check(const ImportCheckpointOptions& options, Problems& problems) {
  if (options.sample) check_sample(*options.sample, problems);
  if (options.model) {
    const std::size_t before = problems.list().size();
    check_model_name("--model", *options.model, problems);
    const bool exported = is_exported_model(*options.model);
    const bool built_in = !exported && problems.list().size() == before;
    for (const auto& [given, name] : {std::pair(options.sample.has_value(), "--sample HxWxC"),
                                      std::pair(options.classes.has_value(), "--classes N")}) {
      const std::string option = split(name, ' ')[0];
      if (built_in && !given) {
        problems.add(option, std::string("is missing (a built-in model is made for samples and "
                                         "classes). Give ") +
                                 name + ".");
      } else if (exported && given) {
        problems.add(option,
                     "has no effect on an exported model (its folder says it). Leave it "
                     "out.");
      }
    }
  }
  if (!options.output) return;
  check_output_file("--output", *options.output, problems);
  std::error_code code;
  if (!options.force && std::filesystem::exists(*options.output, code)) {
    problems.add("--output", *options.output +
                                 " (already exists). Give another name, or --force to "
                                 "overwrite it.");
  }
}

Model model_of(const ImportCheckpointOptions& options) {
  ModelChoice choice{*options.model, options.file};
  if (!is_exported_model(choice.name)) {
    return make_model(choice, *try_parse_sample(*options.sample), *options.classes);
  }
  return import_model(choice.name, {.loss = {.name = kAnyLoss}, .init = choice.init});
}

}  // namespace

int checkpoint_import(const Invocation& how) {
  ImportCheckpointOptions options;
  OptionTable table = table_of(options);
  if (!read_options(table, how, [&](Problems& problems) { check(options, problems); })) return 0;
  const Model model = model_of(options);
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
  checkpoint.parameters = tensors_of(model, parameters, false);
  checkpoint.statistics =
      tensors_of(model, ParameterLayout::statistics(model, 0, model.layer_count()), false);
  for (const std::string& slot : optimizer_named(options.optimizer).slots) {
    checkpoint.slots[slot] = tensors_of(model, parameters, true);
  }
  write_checkpoint(*options.output, checkpoint);
  const std::string remark = model.initial()->remark();
  if (!remark.empty()) std::printf("%s\n", remark.c_str());
  std::printf("%zu parameters of %s written to %s\n", checkpoint.parameters.size(),
              options.file.c_str(), options.output->c_str());
  return 0;
}

}  // namespace hetpipe
