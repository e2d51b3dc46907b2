// SPDX-License-Identifier: Apache-2.0
#include "runtime/training/checkpoint.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "base/text.h"
#include "partitioner/plan/system.h"
#include "runtime/model/parameters.h"
#include "runtime/model/state_names.h"
#include "runtime/training/exact.h"

namespace hetpipe {
namespace {

using Layout = ParameterLayout (*)(const Model&, int, int);

std::vector<NamedTensor> name_tensors(const Model& model, Layout layout,
                                      const std::vector<int>& layers,
                                      const std::vector<float>& flat) {
  std::vector<NamedTensor> tensors;
  auto from = flat.begin();
  for (int layer : layers) {
    const ParameterLayout one = layout(model, layer, layer + 1);
    for (const ParameterEntry& entry : one.entries()) {
      if (!entry.is_own()) continue;
      NamedTensor tensor{.name = entry.name,
                         .shape = entry.file_shape,
                         .values = {},
                         .order = entry.torch
                                      ? kTorchOrder
                                      : order_of(model.layer(layer).spec, entry.shape.shape)};
      tensor.values.assign(from, from + entry.count);
      from += entry.count;
      tensors.push_back(std::move(tensor));
    }
  }
  ensure(from == flat.end(), "a shard's state has another size than its layers");
  return tensors;
}

void append(std::vector<NamedTensor>& to, std::vector<NamedTensor> from) {
  std::move(from.begin(), from.end(), std::back_inserter(to));
}

std::vector<float> flatten(const Model& model, Layout layout, const std::vector<int>& layers,
                           const std::vector<NamedTensor>& tensors) {
  std::map<std::string, const NamedTensor*> by_name;
  for (const NamedTensor& tensor : tensors) by_name[tensor.name] = &tensor;
  std::vector<float> flat;
  for (int layer : layers) {
    const ParameterLayout one = layout(model, layer, layer + 1);
    for (const ParameterEntry& entry : one.entries()) {
      if (!entry.is_own()) continue;
      const auto found = by_name.find(entry.name);
      ensure(found != by_name.end() &&
                 static_cast<std::int64_t>(found->second->values.size()) == entry.count,
             "a checkpoint of this model lacks a tensor");
      flat.insert(flat.end(), found->second->values.begin(), found->second->values.end());
    }
  }
  return flat;
}

std::vector<float> initial(const Model& model, Layout layout, const std::vector<int>& layers,
                           std::uint64_t seed) {
  std::vector<float> flat;
  for (int layer : layers) {
    const ParameterLayout one = layout(model, layer, layer + 1);
    std::vector<float> values(static_cast<std::size_t>(one.count()));
    fill_initial(one, seed, values);
    flat.insert(flat.end(), values.begin(), values.end());
  }
  return flat;
}

// The optimizer's state as a checkpoint holds it: the mean over virtual workers, element by
// element, in their order.
std::vector<float> mean_slot(const CheckpointParts& parts, std::size_t slot) {
  std::vector<double> sum;
  for (const auto& stages : parts.workers) {
    std::size_t element = 0;
    for (const StageState& stage : stages) {  // slices of the model, in its order
      for (const float value : stage.slots[slot]) {
        if (element == sum.size()) sum.push_back(0);
        sum[element++] += static_cast<double>(value);
      }
    }
  }
  std::vector<float> mean;
  mean.reserve(sum.size());
  for (const double value : sum) {
    mean.push_back(static_cast<float>(value / static_cast<double>(parts.workers.size())));
  }
  return mean;
}

// The next loss ends the run; a checkpoint that holds the cause would only take the place of a good
// one.
void check_finite(const std::vector<NamedTensor>& parameters) {
  for (const NamedTensor& tensor : parameters) {
    const auto wrong = std::find_if(tensor.values.begin(), tensor.values.end(),
                                    [](float value) { return !std::isfinite(value); });
    if (wrong == tensor.values.end()) continue;
    throw NumericalError(
        format("parameter %s holds %g", tensor.name.c_str(), static_cast<double>(*wrong)));
  }
}

// Of a run without servers, where every stage has them, and one virtual worker speaks for all.
std::vector<float> of_stages(const CheckpointParts& parts, std::vector<float> StageState::*which) {
  std::vector<float> flat;
  for (const StageState& stage : parts.workers.front()) {
    flat.insert(flat.end(), (stage.*which).begin(), (stage.*which).end());
  }
  return flat;
}

// Before the first update every optimizer's state is zeros.
bool is_state_of(const Checkpoint& checkpoint, const std::string& optimizer) {
  return checkpoint.optimizer == optimizer || checkpoint.optimizer_step == 0;
}

}  // namespace

Checkpoint assemble_checkpoint(const TrainJob& job, const Model& model, const ShardMap& map,
                               const WaveRules& rules, const Sampler& sampler,
                               const CheckpointParts& parts) {
  Checkpoint checkpoint;
  checkpoint.model = model.name();
  checkpoint.model_fingerprint = model.fingerprint();
  checkpoint.system = job.plan.system;
  checkpoint.label = parts.label;
  checkpoint.optimizer = job.optimizer.name;
  const Counts counts = counts_at(job, sampler, rules, checkpoint.label);
  checkpoint.minibatches = counts.minibatches;
  checkpoint.worker_minibatches = counts.worker_minibatches;
  checkpoint.optimizer_step = counts.updates;
  checkpoint.sampler = {
      .seed = job.seed,
      .dataset_size = job.dataset_size,
      .dataset_fingerprint = job.dataset_fingerprint,
      .consumed = sampler.consumed(rules.end_of(checkpoint.label) - rules.first_minibatch())};
  for (std::size_t s = 0; s < parts.shards.size(); ++s) {
    const std::vector<int> layers = map.layers(ShardId{static_cast<int>(s)});
    const ShardSnapshot& snapshot = parts.shards[s].snapshot;
    append(checkpoint.parameters,
           name_tensors(model, ParameterLayout::parameters, layers, snapshot.weights));
    append(checkpoint.statistics,
           name_tensors(model, ParameterLayout::statistics, layers, snapshot.statistics));
  }
  std::vector<int> layers(static_cast<std::size_t>(model.layer_count()));
  std::iota(layers.begin(), layers.end(), 0);
  if (parts.shards.empty()) {
    checkpoint.parameters = name_tensors(model, ParameterLayout::parameters, layers,
                                         of_stages(parts, &StageState::weights));
    checkpoint.statistics = name_tensors(model, ParameterLayout::statistics, layers,
                                         of_stages(parts, &StageState::statistics));
    if (job.optimizer.ema > 0) {
      checkpoint.slots[kAverageSlot] = name_tensors(model, ParameterLayout::parameters, layers,
                                                    of_stages(parts, &StageState::average));
    }
  }
  const std::vector<std::string> slot_names = slots_of_stages(job);
  for (std::size_t i = 0; i < slot_names.size(); ++i) {
    append(checkpoint.slots[slot_names[i]],
           name_tensors(model, ParameterLayout::parameters, layers, mean_slot(parts, i)));
  }
  for (std::size_t s = 0; job.optimizer.ema > 0 && s < parts.shards.size(); ++s) {
    append(checkpoint.slots[kAverageSlot], name_tensors(model, ParameterLayout::parameters,
                                                        map.layers(ShardId{static_cast<int>(s)}),
                                                        parts.shards[s].snapshot.average));
  }
  const std::vector<std::string> server_slots = slots_of_servers(job);
  for (std::size_t s = 0; s < parts.shards.size(); ++s) {
    for (std::size_t i = 0; i < server_slots.size(); ++i) {
      append(
          checkpoint.slots[server_slots[i]],
          name_tensors(model, ParameterLayout::parameters, map.layers(ShardId{static_cast<int>(s)}),
                       parts.shards[s].snapshot.state[i]));
    }
  }
  checkpoint.exact = exact_state(job, rules, parts);
  TrainedOn& of = checkpoint.trained_on.emplace();
  for (int d = 0; d < job.sample.rank(); ++d) of.sample_shape.push_back(job.sample[d]);
  of.classes = job.classes;
  of.vocabulary = job.vocabulary;
  of.class_names = job.class_names;
  check_finite(checkpoint.parameters);
  return checkpoint;
}

std::vector<float> of_layers(const Model& model, ShardMap::What what,
                             const std::vector<float>& of_all, const std::vector<int>& layers) {
  const Layout layout = what == ShardMap::What::parameters ? ParameterLayout::parameters
                                                           : ParameterLayout::statistics;
  std::vector<float> some;
  for (const int layer : layers) {
    const auto first = of_all.begin() + layout(model, 0, layer).count();
    some.insert(some.end(), first, first + layout(model, layer, layer + 1).count());
  }
  return some;
}

FlatState starting_state(const TrainJob& job, const Model& model, const Checkpoint* checkpoint,
                         const std::vector<int>& layers) {
  FlatState state;
  const std::vector<std::string> slot_names = slots_of_stages(job);
  const std::vector<std::string> server_slots = slots_of_servers(job);
  if (checkpoint == nullptr) {
    state.parameters = initial(model, ParameterLayout::parameters, layers, job.seed);
    state.statistics = initial(model, ParameterLayout::statistics, layers, job.seed);
    state.slots.assign(slot_names.size(), std::vector<float>(state.parameters.size()));
    if (job.optimizer.ema > 0) state.average = state.parameters;
    state.state.assign(server_slots.size(), std::vector<float>(state.parameters.size()));
    return state;
  }
  state.parameters = flatten(model, ParameterLayout::parameters, layers, checkpoint->parameters);
  state.statistics = flatten(model, ParameterLayout::statistics, layers, checkpoint->statistics);
  for (const std::string& slot : slot_names) {
    if (checkpoint->optimizer != job.optimizer.name) {
      state.slots.emplace_back(state.parameters.size());
      continue;
    }
    state.slots.push_back(
        flatten(model, ParameterLayout::parameters, layers, checkpoint->slots.at(slot)));
  }
  const auto average = checkpoint->slots.find(kAverageSlot);
  if (job.optimizer.ema > 0) {  // one that the run before did not keep starts here
    state.average = average == checkpoint->slots.end()
                        ? state.parameters
                        : flatten(model, ParameterLayout::parameters, layers, average->second);
  }
  for (const std::string& slot : server_slots) {  // likewise
    const auto kept = checkpoint->slots.find(slot);
    const bool known = kept != checkpoint->slots.end() &&
                       (checkpoint->optimizer == job.optimizer.name || makes_outer_steps(job.plan));
    state.state.push_back(known ? flatten(model, ParameterLayout::parameters, layers, kept->second)
                                : std::vector<float>(state.parameters.size()));
  }
  return state;
}

Counts counts_of(const Checkpoint& checkpoint) {
  Counts counts{.minibatches = checkpoint.minibatches,
                .worker_minibatches = checkpoint.minibatches_of_worker(),
                .updates = checkpoint.optimizer_step};
  if (checkpoint.worker_minibatches) return counts;
  for (const System& system : systems()) {  // whose optimizers made a step of each wave
    const bool by_wave = traits(system.weights).update_by_wave;
    if (by_wave && system.name == checkpoint.system) counts.updates = checkpoint.label;
  }
  return counts;
}

void check_resumable(const Checkpoint& checkpoint, const std::string& file, const TrainJob& job,
                     const Model& model, Problems& problems) {
  if (checkpoint.model_fingerprint != model.fingerprint()) {
    problems.add(file, "is of model '" + checkpoint.model + "' (this run trains '" + model.name() +
                           "', whose layers or shapes differ). Train the checkpoint's model, or "
                           "start without --resume.");
  }
  const bool imported = checkpoint.sampler.dataset_size == 0;  // from a state_dict: no data yet
  if (!imported && (checkpoint.sampler.dataset_fingerprint != job.dataset_fingerprint ||
                    checkpoint.sampler.dataset_size != job.dataset_size)) {
    problems.add(file, format("was trained on another data set (of %lld samples; this one has "
                              "%lld). Give the same --data as before.",
                              static_cast<long long>(checkpoint.sampler.dataset_size),
                              static_cast<long long>(job.dataset_size)));
  }
  if (!imported && checkpoint.sampler.seed != job.seed) {
    problems.add(file,
                 format("was trained with --seed %llu (another seed would repeat some samples "
                        "and skip others). Give that seed.",
                        static_cast<unsigned long long>(checkpoint.sampler.seed)));
  }
  if (!is_state_of(checkpoint, job.optimizer.name)) {
    problems.add(file, "holds the state of optimizer '" + checkpoint.optimizer +
                           "' (this run uses '" + job.optimizer.name + "'). Give --optimizer " +
                           checkpoint.optimizer + ".");
  }
  if (checkpoint.sampler.consumed >= job.end_position) {
    problems.add(
        file,
        format("has consumed %lld samples already (--epochs gives %lld in all). Raise --epochs.",
               static_cast<long long>(checkpoint.sampler.consumed),
               static_cast<long long>(job.end_position)));
  }
}

}  // namespace hetpipe
