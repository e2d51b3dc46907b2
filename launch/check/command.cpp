// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cstdio>

#include "base/cache.h"
#include "base/text.h"
#include "kernels/devices.h"
#include "launch/check/batch.h"
#include "launch/check/steps.h"
#include "launch/checkpoint/tensor_file.h"
#include "launch/command/gpu_precision.h"
#include "launch/command/loss_options.h"
#include "launch/command/options.h"
#include "launch/command/output_file.h"
#include "launch/command/subcommand.h"
#include "runtime/model/graph/import.h"

namespace hetpipe {
namespace {

struct CheckOptions {
  std::optional<std::string> model;
  std::optional<std::string> batch;
  std::optional<std::string> output;
  LossOptions loss;
  double learning_rate = 0.01;
  double momentum = 0.9;
  int steps = 1;
  std::vector<int> cuts;
  std::string device = "cpu";
  std::optional<std::string> precision;
  int threads = 1;
};

OptionTable table_of(CheckOptions& options) {
  return {
      "check",
      "Trains an exported PyTorch model on one minibatch, in this process and with dropout off, "
      "and "
      "writes losses, gradients and updated weights by their names in the state_dict: "
      "hetpipe_export.py --check compares them with PyTorch's.",
      {{"What to compute",
        {
            required(text_option("model", "DIR", options.model,
                                 "Folder of an exported model (docs/own-model.md).")),
            required(text_option("batch", "FILE", options.batch,
                                 "The minibatch, X.safetensors: a tensor for each input of the "
                                 "model, and labels.")),
            text_option("output", "FILE", options.output,
                        "Where to write the results, X.safetensors."),
            real_option("learning-rate", "R", options.learning_rate, {0, 1e6}, "Of SGD."),
            real_option("momentum", "M", options.momentum, {0, 1}, "Of SGD."),
            integer_option("steps", "N", options.steps, {1, 1e6}, "Steps on the same minibatch."),
            integers_option("cut", "LAYER,...", options.cuts, {1, 1e6},
                            "Computes in stages that begin at these layers, which changes no "
                            "bit."),
        }},
       loss_options(options.loss),
       {"This machine",
        {
            choice_option("device", options.device, device_names(), "Device to compute on."),
            unset_means("fp32", choice_option("precision", options.precision, precision_names(),
                                              "Arithmetic of a GPU.")),
            integer_option("threads", "N", options.threads, {1, 1024}, "Threads of the device."),
        }}}};
}

std::vector<int> stage_ends(const CheckOptions& options, const Model& model) {
  std::vector<int> ends = options.cuts;
  ends.push_back(model.layer_count());
  for (std::size_t k = 0; k < ends.size(); ++k) {
    const int before = k == 0 ? 0 : ends[k - 1];
    if (ends[k] <= before || ends[k] > model.layer_count()) {
      throw UserError("--cut", format("%d is not between %d and %d (layers of the model, in "
                                      "ascending order). Choose others.",
                                      ends[k], before + 1, model.layer_count() - 1));
    }
  }
  return ends;
}

std::unique_ptr<Device> device_of(const CheckOptions& options) {
  const std::string name = options.device == "auto" ? choose_device().name : options.device;
  const std::optional<Precision> precision = gpu_precision(name, options.precision);
  return make_device(
      name, options.threads,
      {.index = 0, .precision = precision.value_or(Precision::fp32), .plan_cache = plan_cache()});
}

}  // namespace

int check_command(const Invocation& how) {
  CheckOptions options;
  OptionTable table = table_of(options);
  if (!read_options(table, how, [&](Problems& problems) {
        if (options.model && !is_exported_model(*options.model)) {
          problems.add("--model", *options.model +
                                      " (is no folder with a graph.json). Export a model with "
                                      "hetpipe_export.py.");
        }
        if (options.output) check_output_file("--output", *options.output, problems);
      })) {
    return 0;
  }
  LossChoice loss = loss_choice(options.loss);
  CheckedBatch batch = read_batch(*options.batch, exported_samples(*options.model, loss));
  loss.skips = batch.skips;
  Model model = import_model(*options.model, {.loss = loss, .dropout = false});
  model.set_label_smoothing(static_cast<float>(options.loss.label_smoothing));
  batch.loss_weight = loss_weight_of(model, batch);
  const std::unique_ptr<Device> device = device_of(options);
  CheckedSteps steps(model, stage_ends(options, model), *device,
                     {.name = "sgd-momentum",
                      .learning_rate = options.learning_rate,
                      .momentum = options.momentum});
  std::printf("%s: %d layers, %lld parameters, %lld samples on %s\n", model.name().c_str(),
              model.layer_count(), static_cast<long long>(model.parameter_count()),
              static_cast<long long>(batch.samples), device->description().c_str());
  std::vector<ExportTensor> results;
  std::vector<float> losses;
  double fastest = 0;  // of all but the first, which makes kernels
  for (int s = 0; s < options.steps; ++s) {
    const auto start = std::chrono::steady_clock::now();
    losses.push_back(static_cast<float>(steps.step(batch, s == 0)));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    fastest = s <= 1 ? took.count() : std::min(fastest, took.count());
    if (s > 0) continue;
    for (CheckedTensor& t : steps.gradients()) {
      results.push_back({"gradient/" + t.name, std::move(t.shape), std::move(t.values)});
    }
  }
  std::printf("loss %.6f before the first step, %.6f before the last; fastest step %s\n",
              static_cast<double>(losses.front()), static_cast<double>(losses.back()),
              format_seconds(fastest).c_str());
  if (!options.output) return 0;
  results.push_back({"loss", {static_cast<std::int64_t>(losses.size())}, losses});
  for (auto& tensors : {steps.parameters(), steps.statistics()}) {
    for (const CheckedTensor& t : tensors)
      results.push_back({"updated/" + t.name, t.shape, t.values});
  }
  write_safetensors(*options.output, results, {{"model", model.name()}});
  std::printf("results written to %s\n", options.output->c_str());
  return 0;
}

}  // namespace hetpipe
