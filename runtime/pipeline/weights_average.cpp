// SPDX-License-Identifier: Apache-2.0
#include "runtime/pipeline/weights_average.h"

#include <algorithm>

namespace hetpipe {
namespace {

constexpr std::int64_t kPieceOfAverage = std::int64_t{1} << 20;  // floats

}  // namespace

WeightsAverage::WeightsAverage(Device& device, Stream& stream, double decay,
                               std::span<const float> start)
    : device_(device),
      stream_(stream),
      keep_(static_cast<float>(decay)),
      take_(static_cast<float>(1 - decay)),
      count_(static_cast<std::int64_t>(start.size())),
      average_(device, stream, start.size_bytes(), MemoryKind::optimizer) {
  if (start.empty()) return;
  device_.copy(stream_, average_.data(), reinterpret_cast<const std::byte*>(start.data()),
               start.size_bytes());
  stream_.synchronize();  // `start` need not stay
}

void WeightsAverage::follow(LocalWeights& weights) {
  const std::int64_t most = std::min(count_, kPieceOfAverage);
  if (most == 0) return;
  Buffer piece(device_, stream_, static_cast<std::size_t>(most) * sizeof(float),
               MemoryKind::workspace);
  for (std::int64_t first = 0; first < count_; first += most) {
    const std::int64_t count = std::min(most, count_ - first);
    float* const average = average_.as<float>() + first;
    weights.copy_everything(first, count, piece.as<float>());
    device_.scale(stream_, piece.as<float>(), take_, count);
    device_.scale(stream_, average, keep_, count);
    device_.add(stream_, average, piece.as<float>(), count);
  }
}

}  // namespace hetpipe
