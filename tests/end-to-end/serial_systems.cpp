// SPDX-License-Identifier: Apache-2.0
#include "tests/end-to-end/serial_systems.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/index.h"
#include "partitioner/plan/system.h"

namespace hetpipe {
namespace {

// to[to_at, ...) += from, or = from where `first`.
void add_part(Floats& to, std::int64_t to_at, std::span<const float> from, bool first) {
  for (std::size_t i = 0; i < from.size(); ++i) {
    float& value = to[at(to_at) + i];
    value = first ? from[i] : value + from[i];
  }
}

class Synchronous {
 public:
  explicit Synchronous(const SerialSystem& system)
      : system_(system),
        layers_(system.model, system.device, system.seed),
        parameters_(ParameterLayout::parameters(system.model, 0, system.model.layer_count())),
        weights_(at(parameters_.count())),
        steps_(system.optimizer, parameters_) {
    fill_initial(parameters_, system.seed, weights_);
    for (int i = 0; i < system.sampler.workers(); ++i) {
      stages_.push_back(stages_of(system, layers_, i));
      running_.emplace_back();
      for (const SerialStage& stage : stages_.back()) {
        Floats initial(at(stage.statistics().count()));
        fill_initial(stage.statistics(), system.seed, initial);
        running_.back().emplace_back(at(stage.replicas()), initial);
      }
    }
    result_.losses.resize(stages_.size());
  }

  SerialSystem::Result run() {
    save();
    const Minibatch rounds = rounds_of(system_.sampler);
    for (Minibatch p = 0; p < rounds; ++p) {
      SerialSums sums;
      for (std::size_t i = 0; i < stages_.size(); ++i) {
        const auto gradients = play(i, p);
        for (std::size_t k = 0; k < stages_[i].size(); ++k) {
          for (const Floats& gradient : gradients[k]) {
            sums.add(stages_[i][k].parameters(), gradient);
          }
        }
      }
      Floats sum = sums.flat(parameters_);
      const float factor = global_clip_factor(system_.optimizer, parameters_, sum);
      if (factor < 1) {
        for (float& value : sum) value *= factor;
      }
      const Floats delta = steps_.delta(sum, weights_, p + 1, p);
      for (std::size_t j = 0; j < weights_.size(); ++j) weights_[j] += delta[j];
      if ((p + 1) % system_.plan.in_flight == 0 || p + 1 == rounds) {
        ++result_.label;
        save();
      }
    }
    return std::move(result_);
  }

 private:
  // A minibatch at a virtual worker: gradients [stage][replica].
  std::vector<std::vector<Floats>> play(std::size_t worker, Minibatch p) {
    std::vector<SerialStage>& stages = stages_[worker];
    std::vector<std::vector<Floats>> gradients;
    for (const SerialStage& stage : stages) gradients.emplace_back(at(stage.replicas()));
    for (SerialMicroBatch& micro : micro_batches_of(
             system_.data, system_.sampler, system_.sampler.samples(static_cast<int>(worker), p),
             system_.plan.micro_batches)) {
      if (micro.size() == 0) continue;
      std::vector<std::vector<SerialPass>> passes;
      for (std::size_t k = 0; k < stages.size(); ++k) {
        passes.push_back(
            stages[k].forward(micro, of(stages[k]), running_[worker][k], foreign_of(stages[k])));
      }
      for (std::size_t k = stages.size(); k-- > 0;) {
        stages[k].backward(micro, passes[k], of(stages[k]), samples_of_round(system_.sampler, p),
                           gradients[k], foreign_of(stages[k]));
      }
      Floats& losses = result_.losses[worker][p];
      losses.insert(losses.end(), micro.losses.begin(), micro.losses.end());
    }
    // Who had no sample takes part with zeros.
    for (std::size_t k = 0; k < stages.size(); ++k) {
      for (Floats& gradient : gradients[k]) gradient.resize(at(stages[k].gradient_count()));
    }
    add_uses(stages, gradients);
    return gradients;
  }

  Floats of(const SerialStage& stage) const {
    const auto begin = weights_.begin() + offset(stage);
    return {begin, begin + stage.parameters().count()};
  }

  SerialForeign foreign_of(const SerialStage& stage) const {
    SerialForeign foreign;
    for (const ParameterEntry& entry : parameters_.entries()) {
      if (!entry.is_own() || !stage.uses_foreign(entry.name)) continue;
      const auto begin = weights_.begin() + entry.offset;
      foreign[entry.name] = {begin, begin + entry.count};
    }
    return foreign;
  }

  std::int64_t offset(const SerialStage& stage) const {
    return ParameterLayout::parameters(system_.model, 0, stage.first()).count();
  }

  void save() {
    result_.at[result_.label] = {weights_, mean_statistics(system_, stages_, running_),
                                 steps_.slots()};
  }

  const SerialSystem& system_;
  SerialLayers layers_;
  ParameterLayout parameters_;
  Floats weights_;
  SerialSteps steps_;
  std::vector<std::vector<SerialStage>> stages_;           // [worker][stage]
  std::vector<std::vector<std::vector<Floats>>> running_;  // [worker][stage][replica]
  SerialSystem::Result result_;
};

}  // namespace

float global_clip_factor(const SerialOptimizer& optimizer, const ParameterLayout& layout,
                         const Floats& gradient) {
  if (optimizer.clip_norm == 0) return 1;
  ensure(optimizer.clips == SerialOptimizer::Clips::global, "one norm for all stages");
  double squares = 0;
  for (const ParameterEntry& entry : layout.entries()) {
    if (!entry.is_own()) continue;
    double of_entry = 0;
    for (std::int64_t first = 0; first < entry.count; first += 4096) {
      double of_block = 0;
      for (std::int64_t i = first; i < std::min(first + 4096, entry.count); ++i) {
        const auto value = static_cast<double>(gradient[at(entry.offset + i)]);
        of_block += value * value;
      }
      of_entry += of_block;
    }
    squares += of_entry;
  }
  return static_cast<float>(std::min(1.0, optimizer.clip_norm / (std::sqrt(squares) + 1e-6)));
}

void add_uses(const std::vector<SerialStage>& stages, std::vector<std::vector<Floats>>& gradients) {
  // Of a parameter of this name: the sum that leaves a stage for the one before, [replica].
  std::map<std::string, std::vector<Floats>> sums;
  for (std::size_t k = stages.size(); k-- > 0;) {
    const ParameterLayout& layout = stages[k].parameters();
    std::map<std::string, std::vector<Floats>> here;
    for (auto entry = layout.entries().rbegin(); entry != layout.entries().rend(); ++entry) {
      const auto came = sums.find(entry->name);
      std::vector<Floats>& sum = here[entry->name];
      if (sum.empty()) {
        sum.resize(gradients[k].size());
        for (std::size_t r = 0; came != sums.end() && r < came->second.size(); ++r) {
          Floats& to = sum[r % sum.size()];
          const bool first = to.empty();
          to.resize(at(entry->count));
          add_part(to, 0, came->second[r], first);
        }
      }
      for (std::size_t r = 0; r < sum.size(); ++r) {
        const std::int64_t begin = entry->offset + (entry->is_own() ? 0 : layout.count());
        const std::span<float> part =
            std::span(gradients[k][r]).subspan(at(begin), at(entry->count));
        const bool first = sum[r].empty();
        sum[r].resize(at(entry->count));
        add_part(sum[r], 0, part, first);
        if (entry->is_own()) std::copy(sum[r].begin(), sum[r].end(), part.begin());
      }
    }
    for (auto& [name, sum] : here) sums[name] = std::move(sum);
    for (Floats& gradient : gradients[k]) gradient.resize(at(layout.count()));
  }
}

void SerialSums::add(const ParameterLayout& layout, const Floats& gradient) {
  for (const ParameterEntry& entry : layout.entries()) {
    if (!entry.is_own()) continue;
    Floats part(at(entry.count));  // zeros where there was no sample
    if (!gradient.empty()) std::copy_n(gradient.begin() + entry.offset, entry.count, part.begin());
    const auto [sum, first] = sums_.try_emplace(entry.name, part);
    if (!first) add_part(sum->second, 0, part, false);
  }
}

Floats SerialSums::flat(const ParameterLayout& layout) const {
  Floats flat;
  for (const ParameterEntry& entry : layout.entries()) {
    if (!entry.is_own()) continue;
    const Floats& sum = sums_.at(entry.name);
    flat.insert(flat.end(), sum.begin(), sum.end());
  }
  return flat;
}

std::vector<SerialStage> stages_of(const SerialSystem& system, SerialLayers& layers, int worker) {
  const int micro_batch =
      system.plan.minibatch_of(VirtualWorkerId{worker}) / system.plan.micro_batches;
  std::vector<SerialStage> stages;
  for (const PlanStage& stage : system.plan.virtual_workers[at(worker)].stages) {
    stages.emplace_back(layers, stage.first_layer, stage.end_layer,
                        samples_of_replicas(stage, micro_batch));
  }
  return stages;
}

std::int64_t samples_of_round(const Sampler& sampler, Minibatch p) {
  std::int64_t samples = 0;
  for (int i = 0; i < sampler.workers(); ++i) samples += sampler.samples(i, p).count;
  return samples;
}

Minibatch rounds_of(const Sampler& sampler) {
  Minibatch rounds = 0;
  for (int i = 0; i < sampler.workers(); ++i) rounds = std::max(rounds, sampler.count(i));
  return rounds;
}

namespace {

// sum (+)= factor * values.
void add_scaled(Floats& sum, std::int64_t to_at, Floats values, double factor, bool first) {
  for (float& value : values) value *= static_cast<float>(factor);
  add_part(sum, to_at, values, first);
}

double sum_of_shares(const SerialStage& stage) {
  return std::accumulate(stage.shares().begin(), stage.shares().end(), 0);
}

}  // namespace

Floats mean_statistics(const SerialSystem& system,
                       const std::vector<std::vector<SerialStage>>& stages,
                       const std::vector<std::vector<std::vector<Floats>>>& running) {
  const auto samples = [&](std::size_t worker) {
    return system.plan.minibatch_of(VirtualWorkerId{static_cast<int>(worker)});
  };
  double all = 0;
  for (std::size_t i = 0; i < stages.size(); ++i) all += samples(i);
  Floats mean(at(ParameterLayout::statistics(system.model, 0, system.model.layer_count()).count()));
  for (std::size_t i = 0; i < stages.size(); ++i) {
    for (std::size_t k = 0; k < stages[i].size(); ++k) {
      const SerialStage& stage = stages[i][k];
      const auto offset = ParameterLayout::statistics(system.model, 0, stage.first()).count();
      for (std::size_t r = 0; r < running[i][k].size(); ++r) {
        const double of_worker = stage.shares()[r] / sum_of_shares(stage);
        add_scaled(mean, offset, running[i][k][r], of_worker * (samples(i) / all),
                   i == 0 && r == 0);
      }
    }
  }
  return mean;
}

Floats mean_of_replicas(const SerialStage& stage, const std::vector<Floats>& running) {
  Floats mean(running[0].size());
  for (std::size_t r = 0; r < running.size(); ++r) {
    add_scaled(mean, 0, running[r], stage.shares()[r] / sum_of_shares(stage), r == 0);
  }
  return mean;
}

SerialSystem::Result run_synchronous(const SerialSystem& system) {
  const System rules = composition(system.plan);
  ensure(traits(rules.schedule).has_flush && !traits(rules.sync).waves(), "a synchronous system");
  return Synchronous(system).run();
}

SerialSystem::Result SerialSystem::run() const {
  ensure(sampler.first_minibatch() == 0, "a run from its start");
  const System rules = composition(plan);
  const bool synchronous = traits(rules.schedule).has_flush && !traits(rules.sync).waves();
  return synchronous ? run_synchronous(*this) : run_played(*this);
}

}  // namespace hetpipe
