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
                   std::vector<Contributor> contributors, std::int64_t background)
    : before_(before), next_(std::move(memory)), contributors_(std::move(contributors)) {
  ensure(!contributors_.empty() || before.empty(), "a label without contributions");
  if (next_.size() != before.size()) next_ = huge_floats(before.size());
  if (static_cast<std::int64_t>(before.size()) <= background) return;
  thread_ = std::thread([this] {
    for (std::int64_t seen = 0; seen >= 0;) {
      while (add_once()) {
      }
      news_.wait(seen);
      seen = news_.load();
    }
  });
}

LabelSum::~LabelSum() { stop(); }

void LabelSum::stop() {
  if (!thread_.joinable()) return;
  news_.store(-1);
  news_.notify_one();
  thread_.join();
}

bool LabelSum::arrived(std::size_t contributor, std::size_t part, const float* floats,
                       std::int64_t count) {
  Part& known = contributors_[contributor].parts[part];
  if (known.arrived.load(std::memory_order_relaxed) == count) return false;
  if (known.floats == nullptr) known.floats = floats;
  known.arrived.store(count, std::memory_order_release);
  return true;
}

void LabelSum::add() {
  if (!thread_.joinable()) {
    while (add_once()) {
    }
    return;
  }
  news_.fetch_add(1);
  news_.notify_one();
}

std::vector<float> LabelSum::take() {
  stop();
  return std::move(next_);
}

// Floats of the part that the contributor before has added everywhere, and that are there.
std::int64_t LabelSum::ready_until(std::size_t contributor, const Part& part) const {
  const std::int64_t arrived = part.arrived.load(std::memory_order_acquire);
  if (contributor == 0) return arrived;
  const std::int64_t end = part.range.offset + arrived;
  std::int64_t covered = part.range.offset + part.added;
  for (const Part& other : contributors_[contributor - 1].parts) {
    const std::int64_t other_end = other.range.offset + other.range.count;
    if (covered < other.range.offset || covered >= other_end) continue;
    covered = other.range.offset + other.added;
    if (covered < other_end) break;
  }
  return std::min(covered, end) - part.range.offset;
}

// Whether there was something to add.
bool LabelSum::add_once() {
  bool some = false;
  for (std::size_t i = 0; i < contributors_.size(); ++i) {
    for (Part& part : contributors_[i].parts) {
      const std::int64_t added = part.added.load(std::memory_order_relaxed);
      const std::int64_t count = ready_until(i, part) - added;
      if (count <= 0) continue;
      const std::int64_t place = part.range.offset + added;
      float* const sum = next_.data() + place;
      const float* const delta = part.floats + added;
      if (i == 0) {
        add_to(sum, before_.data() + place, delta, contributors_[i].factor, count);
      } else {
        add_to(sum, delta, contributors_[i].factor, count);
      }
      part.added.store(added + count, std::memory_order_release);
      some = true;
    }
  }
  return some;
}

bool LabelSum::complete() const {
  return std::all_of(contributors_.begin(), contributors_.end(), [](const Contributor& c) {
    return std::all_of(c.parts.begin(), c.parts.end(), [](const Part& part) {
      return part.added.load(std::memory_order_acquire) == part.range.count;
    });
  });
}

}  // namespace hetpipe
