// SPDX-License-Identifier: Apache-2.0
#include "runtime/data/sampler.h"

#include <algorithm>

#include "base/error.h"
#include "base/random.h"

namespace hetpipe {

Sampler::Sampler(std::uint64_t seed, std::int64_t dataset_size,
                 std::vector<int> minibatch_of_worker, std::int64_t first_position,
                 std::int64_t end_position, Minibatch first_minibatch, SampleOrder order)
    : seed_(seed),
      dataset_size_(dataset_size),
      sizes_(std::move(minibatch_of_worker)),
      first_position_(first_position),
      end_position_(std::max(first_position, end_position)),
      first_minibatch_(first_minibatch),
      order_(order) {
  ensure(dataset_size_ > 0, "sampler: empty data set");
  ensure(!sizes_.empty(), "sampler: no virtual worker");
  ensure(first_position_ >= 0, "sampler: negative position");
  for (int size : sizes_) {
    ensure(size > 0, "sampler: a minibatch without samples");
    before_.push_back(round_);
    round_ += size;
  }
}

Minibatch Sampler::count(int worker) const {
  const std::int64_t left = end_position_ - first_position_;
  const bool in_last_round = left % round_ > before_.at(static_cast<std::size_t>(worker));
  return first_minibatch_ + left / round_ + (in_last_round ? 1 : 0);
}

SampleRange Sampler::samples(int worker, Minibatch minibatch) const {
  ensure(minibatch >= first_minibatch_, "sampler: a minibatch from before the start");
  const auto w = static_cast<std::size_t>(worker);
  const std::int64_t start =
      first_position_ + (minibatch - first_minibatch_) * round_ + before_.at(w);
  const std::int64_t first = std::min(start, end_position_);
  const std::int64_t count = std::min<std::int64_t>(sizes_[w], end_position_ - first);
  return {first, static_cast<int>(count)};
}

SampleKey Sampler::key(std::int64_t position) const {
  const std::int64_t epoch = position / dataset_size_;
  const std::int64_t place = position % dataset_size_;
  if (order_ == SampleOrder::file) return {epoch, place};
  const std::uint64_t order = random_key({seed_, static_cast<std::uint64_t>(epoch)});
  return {epoch, permuted(order, dataset_size_, place)};
}

SampleKey Sampler::partner(std::int64_t position) const {
  return key(position % dataset_size_ > 0 ? position - 1 : position + dataset_size_ - 1);
}

std::int64_t Sampler::consumed(std::int64_t rounds) const {
  return std::min(first_position_ + rounds * round_, end_position_);
}

}  // namespace hetpipe
