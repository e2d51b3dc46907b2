// SPDX-License-Identifier: Apache-2.0
#include "runtime/sync/label_sum.h"

#include <algorithm>

#include "base/error.h"
#include "runtime/sync/past_caches.h"

namespace hetpipe {
namespace {

constexpr std::int64_t kBlock = std::int64_t{16} << 10;  // floats that are added at a time,
constexpr std::int64_t kChunk = std::int64_t{2} << 10;   // and from one contributor to the next
}  // namespace

LabelSum::LabelSum(std::span<const float> before, std::span<float> next,
                   std::vector<Contributor> contributors, By by)
    : before_(before), next_(next), contributors_(std::move(contributors)) {
  ensure(!contributors_.empty() || before.empty(), "a label without contributions");
  ensure(before.size() == next.size(), "a label of another size than the one before");
  if (by == By::caller) return;
  thread_ = std::thread([this] {
    for (std::int64_t seen = 0; seen >= 0;) {
      while (add_once() > 0) {
      }
      news_.wait(seen);
      seen = news_.load();
    }
  });
}

LabelSum::~LabelSum() {
  if (!thread_.joinable()) return;
  news_.store(-1);
  news_.notify_one();
  thread_.join();
}

bool LabelSum::arrived(std::size_t contributor, std::size_t part, const ScatteredNumbers& numbers,
                       std::int64_t count) {
  Part& known = contributors_[contributor].parts[part];
  if (known.arrived.load(std::memory_order_relaxed) == count) return false;
  if (known.numbers.base.lie == nullptr) known.numbers = numbers;
  known.arrived.store(count, std::memory_order_release);
  return true;
}

bool LabelSum::add(std::int64_t floats) {
  if (thread_.joinable()) {
    news_.fetch_add(1);
    news_.notify_one();
    return true;
  }
  while (floats > 0) {
    const std::int64_t some = add_once();
    if (some == 0) return true;
    floats -= some;
  }
  return false;
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

void LabelSum::Part::pass(std::int64_t count) {
  in_place += count;
  if (in_place == numbers.ranges[in_range].count) {
    ++in_range;
    in_place = 0;
  }
  added.store(added.load(std::memory_order_relaxed) + count, std::memory_order_release);
}

// The contributor's part whose next float belongs there and has arrived; null: none.
LabelSum::Part* LabelSum::at_place(std::size_t contributor, std::int64_t place) {
  for (Part& part : contributors_[contributor].parts) {
    if (part.place() != place) continue;
    if (part.arrived.load(std::memory_order_acquire) > part.added.load(std::memory_order_relaxed)) {
      return &part;
    }
  }
  return nullptr;
}

// A block of the first contributor's part, and of those behind it that are there: one pass over
// the label for all of them. The floats that were added.
std::int64_t LabelSum::begin_block(Part& first) {
  const auto ready = [](const Part& part) {
    return part.arrived.load(std::memory_order_acquire) -
           part.added.load(std::memory_order_relaxed);
  };
  std::int64_t left = std::min(kBlock, ready(first));
  if (left <= 0) return 0;
  together_.assign(1, {contributors_[0].factor, &first});
  for (std::size_t i = 1; i < contributors_.size(); ++i) {
    Part* const next = at_place(i, first.place());
    if (next == nullptr) break;
    together_.emplace_back(contributors_[i].factor, next);
    left = std::min(left, ready(*next));
  }
  const std::int64_t count = left;
  const bool streams = std::ssize(next_) > kBeyondCaches;
  const std::size_t members = together_.size();
  subtotal_.resize(streams && members > 2 ? static_cast<std::size_t>(kChunk) : 0);
  while (left > 0) {
    const std::int64_t place = first.place();
    std::int64_t some = subtotal_.empty() ? left : std::min(left, kChunk);
    for (const auto& [factor, part] : together_) some = std::min(some, part->contiguous());
    const auto addend = [&](std::size_t i) {
      return Addend{together_[i].second->next(), together_[i].first};
    };
    const float* before = before_.data() + place;
    float* const sum = next_.data() + place;
    std::size_t i = 0;
    if (!streams) {
      add_to(sum, before, addend(0), some);
      for (i = 1; i < members; ++i) add_to(sum, addend(i), some);
    }
    for (; i + 2 < members; ++i) {
      if (i == 0) add_to(subtotal_.data(), before, addend(0), some);
      if (i > 0) add_to(subtotal_.data(), addend(i), some);
      before = subtotal_.data();
    }
    if (streams) {
      add_past_caches(sum, before, addend(i), i + 1 < members ? addend(i + 1) : Addend(), some);
    }
    for (const auto& [unused, part] : together_) part->pass(some);
    left -= some;
  }
  return count * std::ssize(together_);
}

// The next floats of a part whose contributor comes behind others.
std::int64_t LabelSum::add_block(float factor, Part& part, std::int64_t count) {
  for (std::int64_t left = count; left > 0;) {
    const std::int64_t some = std::min(left, part.contiguous());
    add_to(next_.data() + part.place(), {part.next(), factor}, some);
    part.pass(some);
    left -= some;
  }
  return count;
}

// A block of each part that can be added, of contributors that are behind others first: those who
// have caught up go on together. The floats that were added.
std::int64_t LabelSum::add_once() {
  std::int64_t sum = 0;
  for (std::size_t i = 1; i < contributors_.size(); ++i) {
    for (Part& part : contributors_[i].parts) {
      const std::int64_t added = part.added.load(std::memory_order_relaxed);
      sum += add_block(contributors_[i].factor, part,
                       std::max(std::int64_t{0}, std::min(kBlock, ready_until(i, part) - added)));
    }
  }
  if (sum > 0 || contributors_.empty()) return sum;
  for (Part& part : contributors_[0].parts) sum += begin_block(part);
  return sum;
}

bool LabelSum::complete() const {
  return std::all_of(contributors_.begin(), contributors_.end(), [](const Contributor& c) {
    return std::all_of(c.parts.begin(), c.parts.end(), [](const Part& part) {
      return part.added.load(std::memory_order_acquire) == part.range.count;
    });
  });
}

}  // namespace hetpipe
