// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "base/fields.h"
#include "launch/command/sample_options.h"
#include "runtime/training/data_feed.h"

namespace hetpipe {

// The data set of a run, as it is asked for.
struct DataOptions {
  std::optional<std::string> data;
  std::optional<std::string> model;  // folder of an exported one, whose data have named parts
  std::optional<double> test_share;
  SampleOptions samples;
};

// What a rank that will read samples finds of the data, and how fast it reads them while all others
// read as well.
struct DataSeen {
  bool reads = false;     // the others look at nothing
  std::string failure{};  // why it cannot be read; the rest is then empty
  bool mistake = false;   // the failure is the user's, not the machine's
  std::uint64_t fingerprint = 0;
  std::int64_t samples = 0;
  std::int64_t memory = 0;  // bytes that the rank will hold of it
  FeedRate rate{};
};
constexpr auto fields_of(Type<DataSeen>) {
  return fields<&DataSeen::reads, &DataSeen::failure, &DataSeen::mistake, &DataSeen::fingerprint,
                &DataSeen::samples, &DataSeen::memory, &DataSeen::rate>;
}

// minibatch: samples that the rank takes at a time.
DataSeen look_at_data(const DataOptions& options, const std::string& model, int minibatch);

}  // namespace hetpipe
