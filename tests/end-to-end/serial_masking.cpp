// SPDX-License-Identifier: Apache-2.0
#include "tests/end-to-end/serial_masking.h"

#include <cmath>
#include <set>

#include "base/hash.h"
#include "base/random.h"

namespace hetpipe {

void mask_serially(std::uint64_t seed, const SampleKey& key, int mask_token,
                   std::span<float> tokens, std::span<std::int32_t> labels) {
  const std::uint64_t draws =
      random_key({seed, hash_text("masked tokens"), static_cast<std::uint64_t>(key.epoch),
                  static_cast<std::uint64_t>(key.index)});
  const auto size = static_cast<std::int64_t>(tokens.size());
  const auto wanted =
      static_cast<std::uint64_t>(std::max(1.0, std::round(0.15 * static_cast<double>(size))));
  std::set<std::int64_t> predicted;
  for (std::uint64_t j = 0; j < wanted; ++j) {
    const std::int64_t place = permuted(draws, size, static_cast<std::int64_t>(j));
    predicted.insert(place);
    const double fate = static_cast<double>(random_uniform(draws, 2 * j));
    const double other = static_cast<double>(random_uniform(draws, 2 * j + 1)) * mask_token;
    float& token = tokens[static_cast<std::size_t>(place)];
    if (fate < static_cast<double>(0.8f))
      token = static_cast<float>(mask_token);
    else if (fate < static_cast<double>(0.9f))
      token = static_cast<float>(static_cast<int>(other));
  }
  for (std::int64_t t = 0; t < size; ++t) {
    if (!predicted.contains(t)) labels[static_cast<std::size_t>(t)] = -1;
  }
}

}  // namespace hetpipe
