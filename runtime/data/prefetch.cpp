// SPDX-License-Identifier: Apache-2.0
#include "runtime/data/prefetch.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "runtime/data/masking.h"
#include "runtime/data/mixing.h"

namespace hetpipe {

namespace {

// work(0) ... work(count - 1), by so many threads, this one among them. Rethrows what the first of
// them threw.
void in_parallel(int threads, std::size_t count, const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr failure;
  const auto take = [&] {
    try {
      for (std::size_t i = next++; i < count; i = next++) work(i);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
      next = count;
    }
  };
  std::vector<std::thread> others;
  for (std::size_t t = 1; t < std::min(static_cast<std::size_t>(threads), count); ++t) {
    others.emplace_back(take);
  }
  take();
  for (std::thread& other : others) other.join();
  if (failure) std::rethrow_exception(failure);
}

// Samples that are mixed with another one. Neighbours of an epoch's order are each other's, so most
// of them are read once.
Batch assemble_mixed(const Dataset& dataset, const Sampler& sampler,
                     std::span<const std::int64_t> positions, const SampleMemory& memory,
                     int threads) {
  std::vector<SampleKey> keys;
  for (const std::int64_t position : positions) keys.push_back(sampler.key(position));
  const std::size_t count = keys.size();
  std::vector<std::size_t> partners;  // where they stand in keys
  for (std::size_t i = 0; i < count; ++i) {
    const SampleKey partner = sampler.partner(positions[i]);
    if (i > 0 && keys[i - 1] == partner) {
      partners.push_back(i - 1);
    } else {
      partners.push_back(keys.size());
      keys.push_back(partner);
    }
  }
  const Batch read = assemble_samples(dataset, keys, sampler.seed(), ordinary_memory, threads);
  keys.resize(count);
  Batch batch;
  batch.count = static_cast<int>(count);
  batch.keys = std::move(keys);
  const ImageSize size{dataset.height, dataset.width};
  std::vector<Mix> mixes;
  for (const SampleKey& key : batch.keys) {
    mixes.push_back(drawn_mix(dataset.mixes, sampler.seed(), key, size));
  }
  if (dataset.has_labels()) {
    batch.labels.assign(read.labels.begin(), read.labels.begin() + static_cast<long>(count));
    for (std::size_t i = 0; i < count; ++i) {
      batch.mixed.push_back({read.labels[partners[i]], mixes[i].share});
    }
  }
  if (!dataset.has_images()) return batch;
  const SampleType type = mixed_type(dataset.mixes, dataset.sample_type());
  const auto values = static_cast<std::size_t>(dataset.sample_values());
  batch.images = Samples(type, count * values, memory,
                         type == SampleType::pixels ? dataset.scale : PixelScale{});
  const std::size_t from = values * bytes_of(dataset.sample_type()), to = values * bytes_of(type);
  in_parallel(threads, count, [&](std::size_t i) {
    mix_samples(dataset, mixes[i], read.images.data() + i * from,
                read.images.data() + partners[i] * from, batch.images.data() + i * to);
  });
  return batch;
}

}  // namespace

Batch assemble_samples(const Dataset& dataset, std::vector<SampleKey> keys,
                       std::uint64_t masking_seed, const SampleMemory& memory, int threads) {
  Batch batch;
  batch.keys = std::move(keys);
  const std::size_t count = batch.keys.size();
  const auto values = static_cast<std::size_t>(dataset.sample_values());
  batch.count = static_cast<int>(count);
  const std::size_t of_images = dataset.has_images() ? values : 0;
  batch.images = Samples(dataset.sample_type(), count * of_images, memory, dataset.scale);
  const std::size_t bytes = values * bytes_of(batch.images.type());
  const std::size_t each =
      dataset.has_labels() ? static_cast<std::size_t>(dataset.labels_per_sample) : 0;
  batch.labels.reserve(count * each);
  if (dataset.has_images()) {
    in_parallel(dataset.store ? threads : 1, count, [&](std::size_t i) {
      dataset.copy_stored(batch.keys[i], batch.images.data() + i * bytes);
    });
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (dataset.has_labels()) dataset.append_labels(batch.keys[i].index, batch.labels);
    if (!dataset.mask_token) continue;
    const auto mask = [&](auto images) {
      mask_sample(masking_seed, batch.keys[i], *dataset.mask_token,
                  images.subspan(i * of_images, of_images),
                  std::span(batch.labels).subspan(i * each, each));
    };
    batch.images.type() == SampleType::tokens ? mask(batch.images.as<std::uint16_t>())
                                              : mask(batch.images.as<float>());
  }
  return batch;
}

Batch assemble_positions(const Dataset& dataset, const Sampler& sampler,
                         std::span<const std::int64_t> positions, const SampleMemory& memory,
                         int threads) {
  if (dataset.mixes.any()) return assemble_mixed(dataset, sampler, positions, memory, threads);
  std::vector<SampleKey> keys;
  for (const std::int64_t position : positions) keys.push_back(sampler.key(position));
  return assemble_samples(dataset, std::move(keys), sampler.seed(), memory, threads);
}

Batch assemble_batch(const Dataset& dataset, const Sampler& sampler, int worker,
                     Minibatch minibatch, std::span<const SampleSpan> spans,
                     const SampleMemory& memory, int threads) {
  const SampleRange range = sampler.samples(worker, minibatch);
  std::vector<std::int64_t> positions;
  for (const SampleSpan& span : spans) {
    for (std::int64_t i = span.first; i < span.end; ++i) positions.push_back(range.first + i);
  }
  Batch batch = assemble_positions(dataset, sampler, positions, memory, threads);
  batch.minibatch = minibatch;
  if (dataset.label_weights) {
    std::vector<std::int64_t> whole;
    for (std::int64_t i = 0; i < range.count; ++i) {
      whole.push_back(sampler.key(range.first + i).index);
    }
    batch.loss_weight = dataset.mean_label_weight(whole);
  }
  return batch;
}

Prefetcher::Prefetcher(Assemble assemble, Minibatch first, Minibatch end, double deadline_seconds,
                       int depth)
    : assemble_(std::move(assemble)),
      end_(end),
      deadline_seconds_(deadline_seconds),
      depth_(static_cast<std::size_t>(depth)),
      next_(first) {
  ensure(depth > 0, "prefetch: depth must be positive");
  thread_ = std::thread([this, first] { run(first); });
}

Prefetcher::~Prefetcher() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Prefetcher::run(Minibatch first) {
  try {
    for (Minibatch p = first; p < end_; ++p) {
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return stop_ || ready_.size() < depth_; });
        if (stop_) return;
      }
      Batch batch = assemble_(p);  // outside the lock: take() must not wait for a copy
      const std::lock_guard lock(mutex_);
      ready_.push_back(std::move(batch));
      changed_.notify_all();
    }
  } catch (...) {
    const std::lock_guard lock(mutex_);
    failure_ = std::current_exception();
    changed_.notify_all();
  }
}

Batch Prefetcher::take(Minibatch minibatch) {
  std::unique_lock lock(mutex_);
  ensure(minibatch == next_ && minibatch < end_, "prefetch: minibatches are taken in their order");
  const bool there = changed_.wait_for(lock, std::chrono::duration<double>(deadline_seconds_),
                                       [&] { return !ready_.empty() || failure_ != nullptr; });
  if (!there) {
    throw SystemError(format("data: minibatch %lld was not ready within %g s",
                             static_cast<long long>(minibatch), deadline_seconds_));
  }
  // What was assembled before the failure is still good.
  if (ready_.empty()) std::rethrow_exception(failure_);
  return take_first(std::move(lock));
}

std::optional<Batch> Prefetcher::try_take(Minibatch minibatch) {
  std::unique_lock lock(mutex_);
  if (minibatch != next_ || ready_.empty()) return std::nullopt;
  return take_first(std::move(lock));
}

Batch Prefetcher::take_first(std::unique_lock<std::mutex> lock) {
  Batch batch = std::move(ready_.front());
  ready_.pop_front();
  ++next_;
  lock.unlock();
  changed_.notify_all();
  return batch;
}

}  // namespace hetpipe
