// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <mutex>
#include <utility>

namespace hetpipe {

// For memory that may still be written to after its owner is gone. Happens only on the way
// out of a failed job.
template <class T>
void keep_for_ever(T value) {
  static auto* const kept = new std::deque<T>;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  kept->push_back(std::move(value));
}

}  // namespace hetpipe
