// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/sync/numbers.h"
#include "runtime/sync/shard_map.h"

namespace hetpipe {

// Numbers that lie apart: those of the ranges, counted from the base, one range after another.
struct ScatteredNumbers {
  Numbers base;
  std::span<const FlatRange> ranges;
};

// A shard's next label, formed while the pushes arrive:
//   next[e] = before[e] + factor_0 * delta_0[e] + factor_1 * delta_1[e] + ...
// in the order of the contributors (virtual workers), element by element, however their parts
// arrive; bf16 are widened first. A number is added as soon as it and those of the contributors
// before it are there: by whoever calls add(), bit by bit, or by a thread of its own, while the
// next pieces are received.
class LabelSum {
 public:
  struct Part {  // what one stage contributes
    explicit Part(FlatRange the_range) : range(the_range) {}
    Part(Part&& other) noexcept : range(other.range) {}  // before anything has arrived
    FlatRange range;
    ScatteredNumbers numbers;              // set before any of them has arrived
    std::atomic<std::int64_t> arrived{0};  // the first so many are there
    std::atomic<std::int64_t> added{0};
    std::size_t in_range = 0;  // of `numbers`, where the next one to be added is
    std::int64_t in_place = 0;
    std::int64_t place() const { return range.offset + added.load(std::memory_order_relaxed); }
    std::int64_t contiguous() const { return numbers.ranges[in_range].count - in_place; }
    Numbers next() const { return numbers.base.from(numbers.ranges[in_range].offset + in_place); }
    void pass(std::int64_t count);  // added, of those contiguous
  };
  struct Contributor {
    float factor = 1;
    std::vector<Part> parts;  // ascending, together the whole shard
  };

  enum class By { caller, thread };

  // All memory stays alive: before, next (of the same size), the contributions.
  LabelSum(std::span<const float> before, std::span<float> next,
           std::vector<Contributor> contributors, By by);
  ~LabelSum();
  LabelSum(const LabelSum&) = delete;
  LabelSum& operator=(const LabelSum&) = delete;

  // The first `count` numbers of a part are there; whether that is news.
  bool arrived(std::size_t contributor, std::size_t part, const ScatteredNumbers& numbers,
               std::int64_t count);
  // Adds about so many floats of those that can be added by now, and tells whether that was all; or
  // tells the thread.
  bool add(std::int64_t floats);
  bool complete() const;  // everything has been added
  By by() const { return thread_.joinable() ? By::thread : By::caller; }

 private:
  std::int64_t add_once();
  std::int64_t begin_block(Part& first);
  std::int64_t add_block(float factor, Part& part, std::int64_t count);
  Part* at_place(std::size_t contributor, std::int64_t place);
  std::int64_t ready_until(std::size_t contributor, const Part& part) const;

  std::span<const float> before_;
  std::span<float> next_;
  std::vector<Contributor> contributors_;
  std::vector<std::pair<float, Part*>> together_;  // of begin_block, kept for its memory
  std::vector<float> subtotal_;                    // of a chunk
  std::atomic<std::int64_t> news_{0};              // counts the thread's messages; negative: to end
  std::thread thread_;
};

}  // namespace hetpipe
