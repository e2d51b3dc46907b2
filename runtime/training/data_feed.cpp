// SPDX-License-Identifier: Apache-2.0
#include "runtime/training/data_feed.h"

#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <ctime>

#include "base/index.h"
#include "base/time.h"
#include "runtime/data/mixing.h"
#include "runtime/data/prefetch.h"

namespace hetpipe {
namespace {

constexpr double kReserve = 1.1;
constexpr double kMostlyWaiting = 0.5;  // of a thread's time
// Ready, in the making, and with the device.
constexpr int kMinibatchesHeld = Prefetcher::kDepth + 2;

// Of this process so far, all of its threads.
struct Used {
  double seconds = 0;        // of processors
  std::int64_t blocked = 0;  // how often a thread gave its core away, to wait
  std::int64_t ousted = 0;   // how often it was taken away, for another one
};

Used used() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return {static_cast<double>(std::clock()) / CLOCKS_PER_SEC, usage.ru_nvcsw, usage.ru_nivcsw};
}

double share_of(const PlanStage& stage, int micro_batch, int replica) {
  return static_cast<double>(samples_of_replicas(stage, micro_batch)[at(replica)]) / micro_batch;
}

// Of all of a virtual worker's samples/s.
double samples_of(const Plan& plan, VirtualWorkerId worker) {
  if (!plan.predicted) return 0;
  const auto all = static_cast<double>(plan.global_batch());
  return plan.predicted->throughput * plan.minibatch_of(worker) / all;
}

double samples_of(const Plan& plan, VirtualWorkerId worker, StageId stage, int replica) {
  const int micro_batch = std::max(1, plan.minibatch_of(worker) / plan.micro_batches);
  return samples_of(plan, worker) *
         share_of(plan.virtual_workers[at(worker.value)].stages[at(stage.value)], micro_batch,
                  replica);
}

}  // namespace

FeedRate measure_feed(const Dataset& data, const Sampler& order, std::int64_t first, int minibatch,
                      int threads, double seconds) {
  std::int64_t next = 0;
  const auto assemble = [&] {
    std::vector<std::int64_t> positions;
    for (int i = 0; i < minibatch; ++i) positions.push_back(first + next++ % data.size);
    return assemble_positions(data, order, positions, ordinary_memory, threads).count;
  };
  assemble();
  const std::int64_t start = now_ns();
  const Used before = used();
  std::int64_t samples = 0;
  double taken = 0;
  while (taken < seconds) {
    samples += assemble();
    taken = seconds_between(start, now_ns());
  }
  const Used now = used();
  const double cores = (now.seconds - before.seconds) / taken;
  const bool blocked = now.blocked - before.blocked > now.ousted - before.ousted;
  return {static_cast<double>(samples) / taken, threads, cores,
          blocked && cores < kMostlyWaiting * threads};
}

double samples_taken(const Plan& plan, const Role::Worker& worker) {
  return samples_of(plan, worker.virtual_worker, worker.stage(), worker.replica);
}

double most_samples_taken(const Plan& plan) {
  double most = 0;
  for (int v = 0; v < static_cast<int>(plan.virtual_workers.size()); ++v) {
    const int replicas =
        static_cast<int>(plan.virtual_workers[at(v)].stages.front().devices.size());
    for (int r = 0; r < replicas; ++r) {
      most = std::max(most, samples_of(plan, VirtualWorkerId{v}, StageId{0}, r));
    }
  }
  return most;
}

bool suffices(const FeedRate& rate, double samples_per_second) {
  return rate.samples_per_second >= kReserve * samples_per_second;
}

int threads_for(const FeedRate& rate, double samples_per_second) {
  if (rate.samples_per_second <= 0 || rate.waited_for_files) return 0;
  const double of_one = rate.samples_per_second / rate.threads;
  return std::max(1, static_cast<int>(std::ceil(kReserve * samples_per_second / of_one)));
}

std::int64_t held_bytes(const Dataset& data, int samples) {
  const auto bytes = [](const auto& values) {
    return static_cast<std::int64_t>(values.size() * sizeof(values[0]));
  };
  const std::int64_t sample =
      data.has_images()
          ? data.sample_values() *
                static_cast<std::int64_t>(bytes_of(mixed_type(data.mixes, data.sample_type())))
          : 0;
  const std::int64_t labels = data.has_labels() ? std::int64_t{4} * data.labels_per_sample : 0;
  return bytes(data.pixels) + bytes(data.token_ids) + bytes(data.values) + bytes(data.labels) +
         (data.store ? data.store->held_bytes() : 0) +
         std::int64_t{kMinibatchesHeld} * samples * (sample + labels);
}

}  // namespace hetpipe
