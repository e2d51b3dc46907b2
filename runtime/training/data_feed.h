// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/fields.h"
#include "partitioner/plan/plan.h"
#include "runtime/data/dataset.h"
#include "runtime/data/sampler.h"
#include "runtime/training/roles.h"

// Whether a machine reads, decodes and transforms samples as fast as a plan trains on them.
namespace hetpipe {

struct FeedRate {
  double samples_per_second = 0;
  int threads = 1;
  double cores = 0;               // that they kept busy on average
  bool waited_for_files = false;  // most of the time; if they waited otherwise, it was for cores
};

constexpr auto fields_of(Type<FeedRate>) {
  return fields<&FeedRate::samples_per_second, &FeedRate::threads, &FeedRate::cores,
                &FeedRate::waited_for_files>;
}

// Assembles minibatches of so many samples, from `first` of the order on (round and round the data
// set), for so long. One minibatch before that does not count: it opens what is to be opened.
FeedRate measure_feed(const Dataset& data, const Sampler& order, std::int64_t first, int minibatch,
                      int threads, double seconds);

// Samples/s that a rank reads where the plan runs as predicted, 0 without a prediction: virtual
// workers train at rates in the ratio of their minibatches, and the replicas of a stage share them.
double samples_taken(const Plan& plan, const Role::Worker& worker);
// The most of all first stages.
double most_samples_taken(const Plan& plan);

// Whether the rate is a tenth above so many samples/s.
bool suffices(const FeedRate& rate, double samples_per_second);
// So many threads of this kind suffice; 0: no number of threads would, as the measured ones waited
// for files most of the time.
int threads_for(const FeedRate& rate, double samples_per_second);

// Bytes of host memory that a rank holds of its data set: what of it is in memory, and the
// minibatches of `samples` that are made ahead.
std::int64_t held_bytes(const Dataset& data, int samples);

}  // namespace hetpipe
