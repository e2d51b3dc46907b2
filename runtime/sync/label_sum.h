// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/sync/shard_map.h"

namespace hetpipe {

// A shard's next label, formed while the pushes arrive:
//   next[e] = before[e] + factor_0 * delta_0[e] + factor_1 * delta_1[e] + ...
// in the order of the contributors (virtual workers), element by element, however their parts
// arrive. A float is added as soon as it and those of the contributors before it are there.
class LabelSum {
 public:
  struct Part {  // what one stage contributes
    FlatRange range;
    const float* floats = nullptr;  // the first `arrived` of them are there
    std::int64_t arrived = 0;
    std::int64_t added = 0;
  };
  struct Contributor {
    float factor = 1;
    std::vector<Part> parts;  // ascending, together the whole shard
  };

  // `before` stays alive; `memory` is overwritten, and taken as it is where its size fits.
  LabelSum(const std::vector<float>& before, std::vector<float> memory,
           std::vector<Contributor> contributors);

  Part& part(std::size_t contributor, std::size_t part) {
    return contributors_[contributor].parts[part];
  }
  void add();  // all that can be added by now
  bool complete() const;
  std::vector<float> take() { return std::move(next_); }

 private:
  std::int64_t ready_until(std::size_t contributor, const Part& part) const;

  const std::vector<float>& before_;
  std::vector<float> next_;
  std::vector<Contributor> contributors_;
};

}  // namespace hetpipe
