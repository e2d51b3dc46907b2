// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <ostream>
#include <vector>

#include "base/index.h"
#include "base/random.h"
#include "runtime/model/model.h"
#include "runtime/model/parameters.h"
#include "runtime/sync/parameter_server.h"

// What is played, and what everything must be then.
namespace hetpipe {
namespace parameter_server_test {

//   0 linear  1 batch norm  2 relu  3 linear  4 batch norm  5 relu  6 linear  7 loss
inline Model small_model() {
  Model model("small", {3}, 3);
  model.add("linear1", Linear{4});
  model.add("bn1", BatchNorm{});
  model.add("relu1", Relu{});
  model.add("linear2", Linear{5});
  model.add("bn2", BatchNorm{});
  model.add("relu2", Relu{});
  model.add("linear3", Linear{3});
  model.add("loss", SoftmaxCrossEntropy{});
  return model;
}

struct Case {
  const char* name;
  WaveRules rules;
  std::vector<std::vector<int>> stage_end;  // [virtual worker]
  std::vector<int> shard_of_layer;
  int shards = 1;
  bool hosted = false;  // shard s beside the s-th worker
  std::vector<Label> checkpoint_labels;
  std::vector<Label> evaluation_labels;  // at the gates that rest on them
  std::vector<float> factor;
  int slow_worker = -1;
  std::vector<std::vector<int>> replicas = {};  // [virtual worker][stage]; empty: one each
};
inline void PrintTo(const Case& played, std::ostream* out) { *out << played.name; }

// What everything must be, from the numbers that are pushed.
class Expected {
 public:
  Expected(const Case& played, const Model& model)
      : rules(played.rules),
        factor(played.factor),
        parameters(ParameterLayout::parameters(model, 0, model.layer_count())),
        statistics(ParameterLayout::statistics(model, 0, model.layer_count())) {}

  static float number(std::initializer_list<std::uint64_t> key, std::int64_t element) {
    return 1.0f + static_cast<float>(
                      random_bits(random_key(key), static_cast<std::uint64_t>(element)) % 64);
  }
  static float initial(std::int64_t g) { return number({1}, g) - 1000; }
  static float initial_statistic(std::int64_t g) { return number({2}, g); }
  static float initial_slot(int slot, std::int64_t g) {
    return number({3, static_cast<std::uint64_t>(slot)}, g);
  }
  static float delta(int vw, Wave wave, std::int64_t g) { return number({4, at(vw), at(wave)}, g); }
  static float statistic(int vw, Wave wave, std::int64_t g) {
    return number({5, at(vw), at(wave)}, g);
  }
  static float slot(int vw, Wave wave, int slot, std::int64_t g) {
    return number({6, at(vw), at(wave), static_cast<std::uint64_t>(slot)}, g);
  }

  float weight(Label label, std::int64_t g) const {
    float sum = initial(g);
    for (Wave wave = rules.first_wave; wave < label; ++wave) {
      for (int i = 0; i < rules.workers(); ++i) {
        if (wave < rules.end_wave(VirtualWorkerId{i})) sum += factor[at(i)] * delta(i, wave, g);
      }
    }
    return sum;
  }
  // Of the weights of all labels so far: half of it stays.
  float average(Label label, std::int64_t g) const {
    float average = initial(g);
    for (Label l = rules.first_wave + 1; l <= label; ++l) {
      average = 0.5f * average + 0.5f * weight(l, g);
    }
    return average;
  }
  // Mean over virtual workers of what each one's newest wave below the label carried.
  template <class OfWave>
  float mean(Label label, float before_any, OfWave of_wave) const {
    double sum = 0;
    for (int i = 0; i < rules.workers(); ++i) {
      const Wave waves = std::min(label, rules.end_wave(VirtualWorkerId{i}));
      sum += static_cast<double>(waves == rules.first_wave ? before_any : of_wave(i, waves - 1));
    }
    return static_cast<float>(sum / rules.workers());
  }
  float mean_statistic(Label label, std::int64_t g) const {
    if (label == rules.first_wave) return initial_statistic(g);
    return mean(label, initial_statistic(g),
                [g](int i, Wave wave) { return statistic(i, wave, g); });
  }

  // Places in the whole model of the floats of some layers.
  static std::vector<std::int64_t> places(const ParameterLayout& layout,
                                          const std::vector<int>& layers) {
    std::vector<std::int64_t> found;
    for (int layer : layers) {
      for (const ParameterEntry& entry : layout.of_layer(layer)) {
        for (std::int64_t e = 0; e < entry.count; ++e) found.push_back(entry.offset + e);
      }
    }
    return found;
  }

  const WaveRules& rules;
  const std::vector<float>& factor;
  ParameterLayout parameters, statistics;
};

}  // namespace parameter_server_test
}  // namespace hetpipe
