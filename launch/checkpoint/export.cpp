// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <set>

#include "base/text.h"
#include "launch/checkpoint/files.h"
#include "launch/checkpoint/tensor_file.h"
#include "launch/command/options.h"
#include "launch/command/output_file.h"
#include "launch/command/subcommand.h"
#include "runtime/model/graph/import.h"
#include "runtime/training/checkpoint.h"

namespace hetpipe {
namespace {

struct ExportOptions {
  std::string file;
  std::optional<std::string> output;
  std::optional<std::string> model;
  bool optimizer = false;
  bool ema = false;
  bool raw = false;
  bool force = false;
};

OptionTable table_of(ExportOptions& options) {
  return {
      "checkpoint export",
      "Writes the tensors of a checkpoint for other programs, with the names and layouts of a "
      "PyTorch state_dict: conv1.weight, bn1.running_var, linear weights as (out, in).",
      {{"What to write",
        {
            argument(text_option("file", "FILE", options.file,
                                 "A checkpoint, a folder of checkpoints or a run directory; of a "
                                 "folder, the newest complete checkpoint is used.")),
            required(text_option("output", "FILE", options.output,
                                 "Output file: X.safetensors, or X.npz for NumPy.")),
            text_option("model", "DIR", options.model,
                        "Folder of the exported PyTorch model that was trained: the file becomes "
                        "its whole state_dict, in its order, with the buffers that training does "
                        "not change."),
            flag_option("optimizer", options.optimizer,
                        "Also writes the optimizer's slots: optimizer.velocity.conv1.weight."),
            flag_option("ema", options.ema,
                        "Writes the moving average of the weights in their place, of a run with "
                        "--ema."),
            flag_option("raw", options.raw,
                        "Keeps the checkpoint's names and layouts: model/conv1/weight, linear "
                        "weights as (in, out)."),
            flag_option("force", options.force, "Overwrites the output file if it exists."),
        }}}};
}

void check(const ExportOptions& options, Problems& problems) {
  for (const auto& [given, name] :
       {std::pair(options.raw, "--raw"), std::pair(options.optimizer, "--optimizer")}) {
    if (given && options.model) {
      problems.add("--model", std::string("cannot be combined with ") + name +
                                  " (a state_dict has neither). Leave one out.");
    }
  }
  if (options.model && !is_exported_model(*options.model)) {
    problems.add("--model", *options.model +
                                " (is no folder with a graph.json). Give that of the exported "
                                "model that was trained.");
  }
  if (!options.output) return;
  const std::filesystem::path path = *options.output;
  if (path.extension() != ".safetensors" && path.extension() != ".npz") {
    problems.add("--output", path.string() +
                                 " (the extension selects the format: .safetensors or .npz). Use "
                                 "one of them.");
    return;
  }
  check_output_file("--output", path.string(), problems);
  std::error_code code;
  if (!options.force && std::filesystem::is_regular_file(path, code)) {
    problems.add(
        "--output",
        path.string() + " (already exists). Give another name, or --force to overwrite it.");
  }
}

// In the place of the weights, and once.
void take_average(Checkpoint& checkpoint, const std::string& file) {
  auto average = checkpoint.slots.extract(kAverageSlot);
  if (average.empty()) {
    throw UserError("--ema", file +
                                 " holds no average of the weights (its run had no --ema). Leave "
                                 "it out.");
  }
  checkpoint.parameters = std::move(average.mapped());
}

// Two tensors of a checkpoint may become one name ("a/b" and "a.b", "bn/scale" and "bn/weight").
void check_names(const std::string& file, const std::vector<ExportTensor>& tensors) {
  Problems problems;
  std::set<std::string> seen;
  for (const ExportTensor& tensor : tensors) {
    if (!seen.insert(tensor.name).second) {
      problems.add(file, "two of its tensors would be named '" + tensor.name +
                             "' (in PyTorch's naming). Use --raw.");
    }
  }
  problems.throw_if_any();
}

}  // namespace

int checkpoint_export(const Invocation& how) {
  ExportOptions options;
  OptionTable table = table_of(options);
  if (!read_options(table, how, [&](Problems& p) { check(options, p); })) return 0;
  const std::filesystem::path path = one_checkpoint(options.file);
  Checkpoint checkpoint = read_checkpoint(path, WithExact::no);
  if (options.ema) take_average(checkpoint, path.string());
  const ExportSlots slots = options.optimizer ? ExportSlots::yes : ExportSlots::no;
  const std::vector<ExportTensor> tensors =
      options.model ? state_dict_of(checkpoint, path.string(), *options.model)
      : options.raw ? raw_tensors(checkpoint, slots)
                    : torch_tensors(checkpoint, slots);
  check_names(path.string(), tensors);
  const std::filesystem::path output = *options.output;
  if (output.extension() == ".npz") {
    write_npz(output, tensors);
  } else {
    write_safetensors(output, tensors,
                      {{"format", "pt"},
                       {"model", checkpoint.model},
                       {"system", checkpoint.system},
                       {"label", std::to_string(checkpoint.label)},
                       {"layout", options.raw ? "hetpipe" : "pytorch"}});
  }
  std::printf("%zu tensors of %s written to %s\n", tensors.size(), path.c_str(), output.c_str());
  const bool exported_model =
      std::any_of(checkpoint.parameters.begin(), checkpoint.parameters.end(),
                  [](const NamedTensor& tensor) { return tensor.order == kTorchOrder; });
  if (exported_model && !options.model && !options.raw) {
    std::printf(
        "buffers that training does not change are not among them (--model DIR adds them from the "
        "exported model)\n");
  }
  std::fflush(stdout);
  check_rest({path}, "What was exported is intact.");
  return 0;
}

}  // namespace hetpipe
