// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace hetpipe {

// One draw of the data set: element `index`, in pass `epoch` over it. Keys every random draw that
// belongs to a sample, so that it is the same wherever and whenever the sample is computed.
struct SampleKey {
  std::int64_t epoch = 0;
  std::int64_t index = 0;
  bool operator==(const SampleKey&) const = default;
};

}  // namespace hetpipe
