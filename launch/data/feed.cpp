// SPDX-License-Identifier: Apache-2.0
#include "launch/data/feed.h"

#include "base/failure.h"
#include "runtime/data/mixing.h"
#include "runtime/training/training_data.h"

namespace hetpipe {
namespace {

constexpr double kSeconds = 1;  // of reading

}  // namespace

DataSeen look_at_data(const DataOptions& options, const std::string& model, int minibatch) {
  DataSeen seen{.reads = true};
  try {
    Dataset data = open_training_data({.model = {.name = options.model.value_or(model)},
                                       .data = *options.data,
                                       .test_share = options.test_share,
                                       .images = image_rules(options.samples, 1)},
                                      Split::train, Parts::images);
    mix_by(options.samples.mixes, data);
    seen.fingerprint = data.fingerprint;
    seen.samples = data.size;
    seen.memory = held_bytes(data, minibatch);
    const Sampler order(1, data.size, {minibatch}, 0, data.size);
    seen.rate = measure_feed(data, order, 0, minibatch, options.samples.data_threads, kSeconds);
  } catch (const UserError& error) {
    seen.failure = text_of(error);
    seen.mistake = true;
  } catch (const SystemError& error) {
    seen.failure = text_of(error);
  }
  return seen;
}

}  // namespace hetpipe
