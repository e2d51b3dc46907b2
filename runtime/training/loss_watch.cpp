// SPDX-License-Identifier: Apache-2.0
#include "runtime/training/loss_watch.h"

#include <algorithm>

#include "base/text.h"

namespace hetpipe {
namespace {

constexpr double kGrowth = 100;
constexpr double kOfFirst = 0.1;

}  // namespace

std::optional<std::string> LossWatch::next(std::int64_t wave, double loss) {
  if (!first_) first_ = loss;
  const double usual = std::max(least_, kOfFirst * *first_);
  if (loss < least_) {
    least_ = loss;
    least_wave_ = wave;
  }
  if (said_ && loss < kGrowth * kOfFirst * usual) said_ = false;
  if (said_ || usual <= 0 || loss < kGrowth * usual) return std::nullopt;
  said_ = true;
  return format(
      "the training loss is %.4g in wave %lld (it was %.4g in wave %lld): training seems "
      "to diverge. Try a lower --learning-rate, a --lr-warmup or --clip-norm",
      loss, static_cast<long long>(wave + 1), least_, static_cast<long long>(least_wave_ + 1));
}

}  // namespace hetpipe
