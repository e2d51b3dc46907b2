// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/sample.h"
#include "base/sample_type.h"

// Data that stay where they are stored and are read when a minibatch needs them, so that a data set
// may be larger than memory. Any thread reads. What is damaged is a UserError that names the file
// and the sample.
namespace hetpipe {

class SampleStore {
 public:
  virtual ~SampleStore() = default;
  virtual SampleType type() const = 0;
  // Sample key.index as its epoch sees it: the data set's sample_values(), of type().
  virtual void read(SampleKey key, std::byte* out) const = 0;
  // Of memory, to know where the samples are: their index, their files' names.
  virtual std::int64_t held_bytes() const { return 0; }
};

class LabelStore {
 public:
  virtual ~LabelStore() = default;
  // All labels of a sample: the data set's labels_per_sample.
  virtual void read_labels(std::int64_t index, std::span<std::int32_t> out) const = 0;
};

// Samples of more bytes than these stay in their files.
inline constexpr std::int64_t kMostBytesInMemory = std::int64_t{128} << 20;

}  // namespace hetpipe
