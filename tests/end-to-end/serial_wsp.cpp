// SPDX-License-Identifier: Apache-2.0
#include "tests/end-to-end/serial_wsp.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/index.h"
#include "runtime/data/masking.h"
#include "tests/end-to-end/serial_masking.h"
#include "tests/end-to-end/serial_mixing.h"

namespace hetpipe {
namespace {

void add(Floats& to, const Floats& what) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] += what[i];
}

void add(Floats& to, float factor, const Floats& what) {
  for (std::size_t i = 0; i < to.size(); ++i) {
    const float product = factor * what[i];
    to[i] += product;
  }
}

Floats mean(const std::vector<const Floats*>& all) {
  Floats result(all.front()->size());
  for (std::size_t i = 0; i < result.size(); ++i) {
    double sum = 0;
    for (const Floats* one : all) sum += static_cast<double>((*one)[i]);
    result[i] = static_cast<float>(sum / static_cast<double>(all.size()));
  }
  return result;
}

struct SerialBatch {
  Floats images;
  std::vector<std::int32_t> labels;
  std::vector<SampleKey> keys;
  std::vector<SerialMixed> mixed;
};

void append_sample(SerialBatch& batch, const Dataset& data, const SampleKey& key,
                   std::uint64_t masking_seed) {
  const std::size_t begin = batch.images.size();
  batch.images.resize(begin + at(data.sample_values()));
  data.copy_sample(key, batch.images.data() + begin);
  const std::vector<std::int32_t> labels = data.labels_of(key.index);
  batch.labels.insert(batch.labels.end(), labels.begin(), labels.end());
  batch.keys.push_back(key);
  if (!data.mask_token) return;
  mask_serially(masking_seed, key, *data.mask_token, std::span(batch.images).subspan(begin),
                std::span(batch.labels).last(labels.size()));
}

// One virtual worker: what it has computed so far.
struct Player {
  int number = 0;
  Minibatch end = 0;
  Floats statistics;
  SerialSteps steps;
  std::map<Minibatch, Floats> updates;  // applied weight changes
  std::map<Wave, Floats> waves;         // their sums
};

class Game {
 public:
  Game(const SerialWsp& wsp, const SerialWsp::Granted& granted)
      : wsp_(wsp), granted_(granted), model_(wsp.model, wsp.device, wsp.seed) {
    const auto layout = ParameterLayout::parameters(wsp.model, 0, wsp.model.layer_count());
    SerialState& start = result_.at[wsp.first_wave];
    if (wsp.start) {
      start = *wsp.start;
    } else {
      start.weights = model_.parameters();
      start.statistics = model_.statistics();
      start.slots = (wsp.servers ? wsp.servers->steps : SerialSteps(wsp.optimizer, layout)).slots();
    }
    for (int i = 0; i < wsp.sampler.workers(); ++i) {
      players_.push_back({.number = i,
                          .end = wsp.sampler.count(i),
                          .statistics = start.statistics,
                          .steps = SerialSteps(wsp.optimizer, layout,
                                               wsp.servers ? std::vector<Floats>() : start.slots),
                          .updates = {},
                          .waves = {}});
    }
    result_.losses.resize(players_.size());
  }

  SerialWsp::Result play() {
    result_.label = wsp_.first_wave;
    while (std::any_of(players_.begin(), players_.end(),
                       [&](const Player& player) { return has_wave(player, result_.label); })) {
      for (Player& player : players_) play_wave(player, result_.label);
      take_snapshot(result_.label);
      ++result_.label;
    }
    return std::move(result_);
  }

 private:
  Minibatch length() const { return Minibatch{wsp_.in_flight} * wsp_.round; }

  bool has_wave(const Player& player, Wave wave) const { return wave * length() < player.end; }

  void play_wave(Player& player, Wave wave) {
    const Minibatch first = wave * length();
    const Minibatch end = std::min(first + length(), player.end);
    double rates = 0;
    for (Minibatch p = first; p < end; ++p) {
      play_minibatch(player, p);
      rates += wsp_.optimizer.rate_at(p);
      // The sum starts from the first update, not from zero: -0 stays -0.
      if (p == first) {
        player.waves[wave] = player.updates[p];
      } else {
        add(player.waves[wave], player.updates[p]);
      }
    }
    if (first < end && wsp_.optimizer.clips == SerialOptimizer::Clips::wave) {
      clip(player, player.waves[wave], wsp_.optimizer.clip_norm * rates);
    }
    if (first >= end || !wsp_.rounds_pushes) return;
    for (float& value : player.waves[wave]) value = nearest_bf16(value);
  }

  // Each stage's slice to this norm. Squares are added within blocks of 4096 elements of a
  // parameter, then block by block, then parameter by parameter.
  void clip(const Player& player, Floats& values, double norm) const {
    if (norm <= 0) return;
    int first_layer = 0;
    for (const int end_layer : wsp_.stage_ends[at(player.number)]) {
      const auto slice = ParameterLayout::parameters(wsp_.model, first_layer, end_layer);
      const std::size_t offset =
          at(ParameterLayout::parameters(wsp_.model, 0, first_layer).count());
      double squares = 0;
      for (const ParameterEntry& entry : slice.entries()) {
        if (!entry.is_own()) continue;
        double of_entry = 0;
        double of_block = 0;
        for (std::int64_t i = 0; i < entry.count; ++i) {
          if (i > 0 && i % 4096 == 0) {
            of_entry += of_block;
            of_block = 0;
          }
          const double value = static_cast<double>(values[offset + at(entry.offset + i)]);
          of_block += value * value;
        }
        squares += of_entry + of_block;
      }
      const double factor = norm / (std::sqrt(squares) + 1e-6);
      for (std::size_t i = 0; factor < 1 && i < at(slice.count()); ++i) {
        values[offset + i] *= static_cast<float>(factor);
      }
      first_layer = end_layer;
    }
  }

  void play_minibatch(Player& player, Minibatch p) {
    model_.set_parameters(weights_of(player, p));
    model_.set_statistics(player.statistics);
    SerialBatch batch;
    const SampleRange range = wsp_.sampler.samples(player.number, p);
    for (int i = 0; i < range.count; ++i) {
      append_sample(batch, wsp_.data, wsp_.sampler.key(range.first + i), wsp_.sampler.seed());
      if (!wsp_.data.mixes.any()) continue;
      batch.mixed.push_back(
          mix_serially(wsp_.data, wsp_.sampler, range.first + i,
                       std::span(batch.images).last(at(wsp_.data.sample_values()))));
    }
    const std::vector<std::int32_t> labels = label_rows(batch.labels, batch.mixed);
    result_.losses[at(player.number)][p] =
        model_.forward(batch.images, labels, batch.keys, Mode::train).losses;
    player.statistics = model_.statistics();
    player.updates[p] = update(player, p, model_.backward());
  }

  Floats weights_of(const Player& player, Minibatch p) {
    const int nm = wsp_.in_flight;
    const Wave wave = p / length();
    const bool behind_its_gate = p % length() >= nm - 1;
    Wave gate = behind_its_gate ? wave : wave - 1;
    Label label = wsp_.first_wave;
    if (gate <= wsp_.first_wave) {
      gate = wsp_.first_wave;  // the run's first wave has none
    } else {
      label = granted(player, gate);
    }
    Floats weights = result_.at.at(label).weights;
    for (Wave own = label; own < gate; ++own) add(weights, player.waves.at(own));
    for (Minibatch q = gate * length(); q <= p - nm; ++q) add(weights, player.updates.at(q));
    return weights;
  }

  Label granted(const Player& player, Wave gate) {
    const Label label = granted_(player.number, gate);
    ensure(label >= wsp_.first_wave && label <= gate, "a label that a gate can grant");
    return label;
  }

  Floats update(Player& player, Minibatch p, Floats gradient) {
    const SerialOptimizer& o = wsp_.optimizer;
    if (o.clips == SerialOptimizer::Clips::stage) clip(player, gradient, o.clip_norm);
    return player.steps.delta(gradient, model_.parameters(),
                              wsp_.updates + p - wsp_.first_wave * length() + 1, p);
  }

  void take_snapshot(Wave wave) {
    SerialState next = result_.at.at(wave);
    if (servers_) std::fill(next.weights.begin(), next.weights.end(), 0.0f);
    Minibatch newest = 0;
    std::vector<const Floats*> statistics;
    for (const Player& player : players_) {
      statistics.push_back(&player.statistics);
      const auto pushed = player.waves.find(wave);
      if (pushed == player.waves.end()) continue;  // it has finished
      newest = std::max(newest, player.end);
      const float factor = wsp_.factors[at(player.number)];
      if (factor == 1.0f) {
        add(next.weights, pushed->second);
      } else {
        add(next.weights, factor, pushed->second);
      }
    }
    if (outer_) outer_->step(result_.at.at(wave).weights, next.weights);
    next.statistics = mean(statistics);
    if (servers_) {
      const Minibatch first = wave * length();
      servers_->step(result_.at.at(wave).weights, next.weights, first,
                     std::min(first + length(), newest), wsp_.updates + wave - wsp_.first_wave + 1);
      next.slots = servers_->steps.slots();
      result_.at[wave + 1] = std::move(next);
      return;
    }
    for (std::size_t s = 0; s < next.slots.size(); ++s) {
      std::vector<const Floats*> slot;
      for (const Player& player : players_) slot.push_back(&player.steps.slots()[s]);
      next.slots[s] = mean(slot);
    }
    result_.at[wave + 1] = std::move(next);
  }

  const SerialWsp& wsp_;
  const SerialWsp::Granted& granted_;
  SerialModel model_;
  std::vector<Player> players_;
  std::optional<SerialOuter> outer_ = wsp_.outer;
  std::optional<SerialServerStep> servers_ = wsp_.servers;
  SerialWsp::Result result_;
};

}  // namespace

float nearest_bf16(float value) {
  if (!std::isfinite(value)) return value;
  int exponent = 0;
  std::frexp(value, &exponent);  // below 2^exponent, not below half of it
  const double unit = std::ldexp(1.0, std::max(exponent, -125) - 8);
  return static_cast<float>(std::nearbyint(static_cast<double>(value) / unit) * unit);
}

void SerialOuter::step(const Floats& before, Floats& summed) {
  velocity.resize(summed.size());
  for (std::size_t i = 0; i < summed.size(); ++i) {
    const float gradient = before[i] - summed[i];
    velocity[i] = momentum * velocity[i] + gradient;
    const float nesterov = gradient + momentum * velocity[i];
    summed[i] = before[i] - rate * nesterov;
  }
}

SerialWsp::Granted SerialWsp::bound(Wave first_wave, Wave distance) {
  return [=](int, Wave wave) { return std::max(first_wave, wave - distance); };
}

SerialWsp::Result SerialWsp::run(const Granted& granted) const {
  ensure(sampler.first_minibatch() == first_wave * in_flight * round,
         "a sampler that starts at the wave");
  ensure(static_cast<int>(factors.size()) == sampler.workers(), "a factor per virtual worker");
  return Game(*this, granted).play();
}

SerialEvaluation evaluate_serially(const Model& model, Device& device, const Dataset& data,
                                   const SerialState& state, int batch) {
  SerialModel whole(model, device, 0);
  whole.set_parameters(state.weights);
  whole.set_statistics(state.statistics);
  SerialEvaluation sum;
  for (std::int64_t first = 0; first < data.size; first += batch) {
    SerialBatch samples;
    for (std::int64_t i = first; i < std::min(first + batch, data.size); ++i) {
      append_sample(samples, data, {0, i}, kEvaluationMaskingSeed);
    }
    const SerialModel::Result result =
        whole.forward(samples.images, samples.labels, samples.keys, Mode::evaluate, false);
    for (const float loss : result.losses) sum.loss_sum += static_cast<double>(loss);
    for (const std::int32_t hit : result.correct) sum.correct += hit;
  }
  return sum;
}

}  // namespace hetpipe
