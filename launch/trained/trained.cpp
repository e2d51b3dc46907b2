// SPDX-License-Identifier: Apache-2.0
#include "launch/trained/trained.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "base/cache.h"
#include "base/index.h"
#include "base/text.h"
#include "kernels/devices.h"
#include "launch/checkpoint/files.h"
#include "launch/command/gpu_precision.h"
#include "runtime/model/graph/import.h"
#include "runtime/model/parameters.h"
#include "runtime/training/training_data.h"

namespace hetpipe {
namespace {

std::string text_of_shape(const std::vector<std::int64_t>& shape) {
  std::vector<std::string> sides;
  for (const std::int64_t side : shape) sides.push_back(std::to_string(side));
  return "(" + join(sides, ", ") + (shape.size() == 1 ? ",)" : ")");
}

// Where the checkpoint and the model first differ; empty: in nothing that has a shape.
std::string difference(const Checkpoint& checkpoint, const Model& model) {
  std::map<std::string, const NamedTensor*> stored;
  for (const NamedTensor& tensor : checkpoint.parameters) stored[tensor.name] = &tensor;
  const auto layout = ParameterLayout::parameters(model, 0, model.layer_count());
  for (const ParameterEntry& entry : layout.entries()) {
    if (!entry.is_own()) continue;
    const auto found = stored.find(entry.name);
    if (found == stored.end()) return "which has " + entry.name + ", and the checkpoint does not";
    if (found->second->shape != entry.file_shape) {
      return entry.name + " is " + text_of_shape(found->second->shape) + " in the checkpoint and " +
             text_of_shape(entry.file_shape) + " there";
    }
  }
  return "whose layers differ";
}

// Of a model that reads whole samples: the checkpoint of which model this is, as a name or folder.
ModelChoice choice_of(const TrainedOptions& options, const Checkpoint& checkpoint,
                      const std::string& file) {
  ModelChoice choice{options.model.value_or(checkpoint.model)};
  choice.loss = loss_choice(options.loss);
  const std::vector<std::string> built_in = model_names();
  const bool known = std::ranges::find(built_in, choice.name) != built_in.end();
  if (!options.model && !known) {
    throw UserError(file, "is of model '" + choice.name +
                              "', which is not built in. Give --model DIR, its exported folder.");
  }
  if (model_name(choice) != checkpoint.model) {
    throw UserError(file, "is of model '" + checkpoint.model + "' (--model says '" +
                              model_name(choice) + "'). Leave --model out, or give that model.");
  }
  return choice;
}

}  // namespace

Trained::Trained(const TrainedOptions& options)
    : options_(options),
      path_(one_checkpoint(options.checkpoint)),
      checkpoint_(read_checkpoint(path_, WithExact::no)),
      choice_(choice_of(options, checkpoint_, path_.string())) {}

Dataset Trained::open(Split split) const {
  if (!options_.data) {
    throw UserError("--data",
                    "is missing (" + path_.string() +
                        " lies in no run directory that would say it). Give --data DATA.");
  }
  const TrainingData of{choice_, *options_.data, options_.test_share,
                        image_rules(options_.samples)};
  if (split == Split::test && !has_test_samples(of)) {
    throw UserError("--data", *options_.data +
                                  " holds no test samples. Give --split train, or --test-share F "
                                  "as in training.");
  }
  return open_training_data(of, split, Parts::both);
}

Model Trained::model_for(const Dataset& data) const {
  ModelChoice choice = choice_;
  choice.loss.skips = data.skips;
  Model model = make_model_for(choice, data);
  check_same(model,
             format("samples %s of %d classes, as %s has them",
                    text_of_shape(data.sample_shape()).c_str(), data.classes, data.name.c_str()));
  return model;
}

Model Trained::model() const {
  const auto& of = checkpoint_.trained_on;
  if (!of && !is_exported_model(choice_.name)) {
    throw UserError(path_.string(),
                    "does not say which samples its model was made for (it is older than that). "
                    "Give --data DATA, as in training.");
  }
  if (!of) return import_model(choice_.name, {.loss = choice_.loss});
  Model model = make_model(choice_, Shape(of->sample_shape), static_cast<int>(of->classes));
  check_same(model, "what the checkpoint says it was trained on");
  return model;
}

void Trained::check_same(const Model& model, const std::string& made_for) const {
  if (model.fingerprint() == checkpoint_.model_fingerprint) return;
  throw UserError(path_.string(), "is of another model than '" + model.name() + "' for " +
                                      made_for + " (" + difference(checkpoint_, model) +
                                      "). Give the data and the model of the training, or others "
                                      "of their shape and classes.");
}

FlatState Trained::state_of(const Model& model) const {
  std::vector<int> layers(static_cast<std::size_t>(model.layer_count()));
  std::iota(layers.begin(), layers.end(), 0);
  TrainJob job;
  job.optimizer.name = "sgd";  // whose state is nothing
  return starting_state(job, model, &checkpoint_, layers);
}

std::string Trained::vocabulary() const {
  return checkpoint_.trained_on ? checkpoint_.trained_on->vocabulary : "";
}

std::vector<std::string> Trained::class_names(const Dataset& data) const {
  if (!data.class_names.empty() || !checkpoint_.trained_on) return data.class_names;
  return checkpoint_.trained_on->class_names;
}

std::unique_ptr<Device> device_for(const TrainedOptions& options, int local_rank) {
  const std::string name = options.device == "auto" ? choose_device().name : options.device;
  const VisibleGpus seen = name == "cuda" ? visible_gpus() : VisibleGpus{};
  const int gpu = seen.gpus.empty() ? 0 : seen.gpus[at(local_rank) % seen.gpus.size()].index;
  return make_device(name, options.threads,
                     {gpu, gpu_precision(name, options.precision), plan_cache()});
}

}  // namespace hetpipe
