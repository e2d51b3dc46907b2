// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/launch/check/any_cut.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <set>

#include "base/text.h"
#include "launch/check/steps.h"

namespace hetpipe {
namespace {

// What a training leaves, by name.
std::vector<CheckedTensor> left_by(const Model& model, const CheckedBatch& batch, Device& device,
                                   int steps, Cut stage_ends) {
  stage_ends.push_back(model.layer_count());
  CheckedSteps training(model, std::move(stage_ends), device,
                        {.name = "sgd-momentum", .learning_rate = 0.01, .momentum = 0.9});
  std::vector<CheckedTensor> all(1);
  all[0].name = "the loss";
  for (int s = 0; s < steps; ++s) {
    all[0].values.push_back(static_cast<float>(training.step(batch)));
  }
  for (const auto& tensors : {training.parameters(), training.statistics()}) {
    all.insert(all.end(), tensors.begin(), tensors.end());
  }
  return all;
}

// In bits: not-a-numbers are equal to themselves. Empty: nowhere.
std::string first_difference(const std::vector<CheckedTensor>& got,
                             const std::vector<CheckedTensor>& wanted) {
  if (got.size() != wanted.size()) return "the number of tensors";
  for (std::size_t t = 0; t < got.size(); ++t) {
    if (got[t].name != wanted[t].name) return got[t].name + " in the place of " + wanted[t].name;
    if (got[t].values.size() != wanted[t].values.size()) return "the size of " + got[t].name;
    for (std::size_t i = 0; i < got[t].values.size(); ++i) {
      if (std::memcmp(&got[t].values[i], &wanted[t].values[i], sizeof(float)) == 0) continue;
      return format("%s, element %zu: %.9g, as one stage %.9g", got[t].name.c_str(), i,
                    static_cast<double>(got[t].values[i]),
                    static_cast<double>(wanted[t].values[i]));
    }
  }
  return "";
}

}  // namespace

std::vector<Cut> cuts_in_two(int layers, int most) {
  std::vector<Cut> cuts;
  const int all = layers - 1;
  const int count = std::min(all, most);
  for (int i = 0; i < count; ++i) {
    cuts.push_back({1 + static_cast<int>(static_cast<std::int64_t>(i) * all / count)});
  }
  return cuts;
}

std::vector<Cut> drawn_cuts(int layers, int stages, int count, std::uint64_t seed) {
  double all = 1;  // ways to choose stages - 1 of layers - 1 places
  for (int i = 1; i < stages; ++i) all = all * (layers - i) / i;
  std::mt19937_64 random(seed);
  std::set<Cut> cuts;
  while (static_cast<double>(cuts.size()) < std::min<double>(count, all)) {
    std::set<int> places;
    while (static_cast<int>(places.size()) < stages - 1) {
      places.insert(1 + static_cast<int>(random() % static_cast<std::uint64_t>(layers - 1)));
    }
    cuts.insert(Cut(places.begin(), places.end()));
  }
  return {cuts.begin(), cuts.end()};
}

std::string cut_text(const Model& model, const Cut& cut) {
  std::vector<std::string> stages;
  for (std::size_t k = 0; k <= cut.size(); ++k) {
    const int first = k == 0 ? 0 : cut[k - 1];
    const int last = (k == cut.size() ? model.layer_count() : cut[k]) - 1;
    const std::string& name = model.layer(first).name;
    stages.push_back(first == last ? name : name + ".." + model.layer(last).name);
  }
  return join(stages, " | ");
}

CutResult train_cuts(const Model& model, const CheckedBatch& batch, Device& device, int steps,
                     const std::vector<Cut>& cuts, const std::function<void(int)>& on_cut) {
  const std::vector<CheckedTensor> whole = left_by(model, batch, device, steps, {});
  CutResult result;
  for (const Cut& cut : cuts) {
    const std::string where = first_difference(left_by(model, batch, device, steps, cut), whole);
    if (!where.empty()) result.different.push_back(cut_text(model, cut) + ": " + where);
    ++result.cuts;
    if (on_cut) on_cut(result.cuts);
  }
  return result;
}

}  // namespace hetpipe
