// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>

// How many OpenMP threads a kernel uses. The number belongs to the calling thread: ranks that are
// threads of one process do not disturb each other.
namespace hetpipe {

// oneDNN asks OpenMP when a primitive is created and again when it runs; both happen inside a
// scope.
class ThreadScope {
 public:
  explicit ThreadScope(int threads) : before_(omp_get_max_threads()) {
    if (threads != before_) omp_set_num_threads(threads);
    changed_ = threads != before_;
  }
  ~ThreadScope() {
    if (changed_) omp_set_num_threads(before_);
  }
  ThreadScope(const ThreadScope&) = delete;
  ThreadScope& operator=(const ThreadScope&) = delete;

 private:
  int before_;
  bool changed_ = false;
};

// body(i) for i in [0, count); the bodies must not share what they write. At one thread a plain
// loop: no parallel region is opened.
template <class Body>
void parallel_for(int threads, std::int64_t count, const Body& body) {
  if (threads == 1 || count <= 1) {
    for (std::int64_t i = 0; i < count; ++i) body(i);
    return;
  }
#pragma omp parallel for schedule(static) num_threads(threads)
  for (std::int64_t i = 0; i < count; ++i) body(i);
}

// body(begin, length) over pieces of [0, count) that are worth a thread.
template <class Body>
void parallel_pieces(int threads, std::int64_t count, const Body& body) {
  if (threads == 1) {
    body(std::int64_t{0}, count);
    return;
  }
  constexpr std::int64_t kPiece = 1 << 15;
  parallel_for(threads, (count + kPiece - 1) / kPiece, [&](std::int64_t piece) {
    const std::int64_t begin = piece * kPiece;
    body(begin, std::min(kPiece, count - begin));
  });
}

}  // namespace hetpipe
