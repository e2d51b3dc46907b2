// SPDX-License-Identifier: Apache-2.0
#include "runtime/sync/label_sum.h"

#include <algorithm>

#include "base/error.h"
#include "base/huge_pages.h"

namespace hetpipe {
namespace {

void add_to(float* __restrict sum, const float* __restrict before, const float* __restrict delta,
            float factor, std::int64_t count) {
  if (factor == 1.0f) {
    for (std::int64_t e = 0; e < count; ++e) sum[e] = before[e] + delta[e];
  } else {
    for (std::int64_t e = 0; e < count; ++e) sum[e] = before[e] + factor * delta[e];
  }
}

void add_to(float* __restrict sum, const float* __restrict delta, float factor,
            std::int64_t count) {
  if (factor == 1.0f) {
    for (std::int64_t e = 0; e < count; ++e) sum[e] += delta[e];
  } else {
    for (std::int64_t e = 0; e < count; ++e) sum[e] += factor * delta[e];
  }
}

}  // namespace

LabelSum::LabelSum(const std::vector<float>& before, std::vector<float> memory,
                   std::vector<Contributor> contributors)
    : before_(before), next_(std::move(memory)), contributors_(std::move(contributors)) {
  ensure(!contributors_.empty() || before.empty(), "a label to which nobody contributes");
  if (next_.size() != before.size()) next_ = huge_floats(before.size());
}

// Floats of the part that the contributor before has added everywhere, and that are there.
std::int64_t LabelSum::ready_until(std::size_t contributor, const Part& part) const {
  if (contributor == 0) return part.arrived;
  const std::int64_t end = part.range.offset + part.arrived;
  std::int64_t covered = part.range.offset + part.added;
  for (const Part& other : contributors_[contributor - 1].parts) {
    const std::int64_t other_end = other.range.offset + other.range.count;
    if (covered < other.range.offset || covered >= other_end) continue;
    covered = other.range.offset + other.added;
    if (covered < other_end) break;
  }
  return std::min(covered, end) - part.range.offset;
}

void LabelSum::add() {
  for (std::size_t i = 0; i < contributors_.size(); ++i) {
    for (Part& part : contributors_[i].parts) {
      const std::int64_t count = ready_until(i, part) - part.added;
      if (count <= 0) continue;
      const std::int64_t place = part.range.offset + part.added;
      float* const sum = next_.data() + place;
      const float* const delta = part.floats + part.added;
      if (i == 0) {
        add_to(sum, before_.data() + place, delta, contributors_[i].factor, count);
      } else {
        add_to(sum, delta, contributors_[i].factor, count);
      }
      part.added += count;
    }
  }
}

bool LabelSum::complete() const {
  return std::all_of(contributors_.begin(), contributors_.end(), [](const Contributor& c) {
    return std::all_of(c.parts.begin(), c.parts.end(),
                       [](const Part& part) { return part.added == part.range.count; });
  });
}

}  // namespace hetpipe
