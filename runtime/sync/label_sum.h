// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "runtime/sync/shard_map.h"

namespace hetpipe {

// A shard's next label, formed while the pushes arrive:
//   next[e] = before[e] + factor_0 * delta_0[e] + factor_1 * delta_1[e] + ...
// in the order of the contributors (virtual workers), element by element, however their parts
// arrive. A float is added as soon as it and those of the contributors before it are there. Large
// labels are added by a thread of their own, while the next pieces are received.
class LabelSum {
 public:
  struct Part {  // what one stage contributes
    explicit Part(FlatRange the_range) : range(the_range) {}
    Part(Part&& other) noexcept : range(other.range) {}  // before anything has arrived
    FlatRange range;
    const float* floats = nullptr;         // set before any of them has arrived
    std::atomic<std::int64_t> arrived{0};  // the first so many are there
    std::atomic<std::int64_t> added{0};
  };
  struct Contributor {
    float factor = 1;
    std::vector<Part> parts;  // ascending, together the whole shard
  };

  // `before` stays alive, as do the contributions; `memory` is overwritten, and taken as it is
  // where its size fits. Labels of more floats than `background` get their thread.
  LabelSum(const std::vector<float>& before, std::vector<float> memory,
           std::vector<Contributor> contributors, std::int64_t background = kBackground);
  ~LabelSum();
  LabelSum(const LabelSum&) = delete;
  LabelSum& operator=(const LabelSum&) = delete;

  // The first `count` floats of a part are there; whether that is news.
  bool arrived(std::size_t contributor, std::size_t part, const float* floats, std::int64_t count);
  void add();             // all that can be added by now, or has it added
  bool complete() const;  // everything has been added
  std::vector<float> take();

 private:
  static constexpr std::int64_t kBackground = std::int64_t{1} << 20;
  bool add_once();
  void stop();
  std::int64_t ready_until(std::size_t contributor, const Part& part) const;

  const std::vector<float>& before_;
  std::vector<float> next_;
  std::vector<Contributor> contributors_;
  std::atomic<std::int64_t> news_{0};  // counts the thread's messages; negative: to end
  std::thread thread_;
};

}  // namespace hetpipe
