// SPDX-License-Identifier: Apache-2.0
#include "launch/generate/sampling.h"

#include <algorithm>
#include <vector>

#include "base/hash.h"
#include "base/index.h"
#include "base/random.h"
#include "launch/predict/prediction.h"

namespace hetpipe {

int next_token(std::span<const float> logits, const Sampling& sampling, std::uint64_t place) {
  if (sampling.greedy) {
    return static_cast<int>(std::ranges::max_element(logits) - logits.begin());
  }
  const std::vector<double> probabilities = softmax(logits, sampling.temperature);
  const int all = static_cast<int>(logits.size());
  std::vector<int> kept = largest(probabilities, sampling.top_k.value_or(all));
  double sum = 0;
  for (const int token : kept) sum += probabilities[at(token)];
  if (sampling.top_p) {
    const double wanted = *sampling.top_p * sum;
    double reached = 0;
    std::size_t count = 0;
    while (count < kept.size() && (count == 0 || reached < wanted)) {
      reached += probabilities[at(kept[count++])];
    }
    kept.resize(count);
    sum = reached;
  }
  const std::uint64_t key = random_key({sampling.seed, hash_text("generation")});
  const double draw = static_cast<double>(random_uniform(key, place)) * sum;
  double passed = 0;
  for (const int token : kept) {
    passed += probabilities[at(token)];
    if (draw < passed) return token;
  }
  return kept.back();
}

}  // namespace hetpipe
