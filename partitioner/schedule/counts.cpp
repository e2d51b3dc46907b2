// SPDX-License-Identifier: Apache-2.0
#include "partitioner/schedule/counts.h"

#include <algorithm>

namespace hetpipe {
namespace {

using Micro = std::pair<Minibatch, int>;  // a micro-batch

// A set of few, which come and go mostly in ascending order.
template <class T>
class FewSorted {
 public:
  using Place = typename std::vector<T>::iterator;
  bool insert(const T& value) {  // false: was there
    const Place at = lower_bound(value);
    if (at != values_.end() && *at == value) return false;
    values_.insert(at, value);
    return true;
  }
  void erase(const T& value) {
    const Place at = find(value);
    if (at != values_.end()) values_.erase(at);
  }
  void erase(Place first, Place end) { values_.erase(first, end); }
  Place find(const T& value) {
    const Place at = lower_bound(value);
    return at != values_.end() && *at == value ? at : values_.end();
  }
  Place lower_bound(const T& value) {
    return std::lower_bound(values_.begin(), values_.end(), value);
  }
  Place begin() { return values_.begin(); }
  Place end() { return values_.end(); }
  bool empty() const { return values_.empty(); }
  std::size_t size() const { return values_.size(); }

 private:
  std::vector<T> values_;
};

// What a device does with each minibatch, looked up beforehand.
struct Extent {
  int forwards = 0;               // over all chunks
  int backwards = 0;              // B, over all chunks
  std::size_t last_forward = 0;   // where they stand
  std::size_t last_backward = 0;  // B
  std::size_t end = 0;            // the last B or W: the update comes after it
};

class HeldCount {
 public:
  explicit HeldCount(const StageActions& actions) : actions_(actions) {
    for (std::size_t i = 0; i < actions.size(); ++i) {
      const Action& action = actions[i];
      Extent& extent = extents_[action.minibatch];
      chunks_ = std::max(chunks_, action.chunk + 1);
      switch (action.kind) {
        case ActionKind::forward:
          ++extent.forwards;
          extent.last_forward = i;
          break;
        case ActionKind::backward:
          ++extent.backwards;
          extent.last_backward = extent.end = i;
          break;
        case ActionKind::weight_gradient:
          split_ = true;
          extent.end = i;
          break;
        default:
          break;
      }
    }
    held_.resize(static_cast<std::size_t>(chunks_));
  }

  HeldCounts run() {
    for (std::size_t i = 0; i < actions_.size(); ++i) step(i);
    return std::move(most_);
  }

 private:
  void step(std::size_t i) {
    const Action& action = actions_[i];
    const Minibatch p = action.minibatch;
    const Extent& extent = extents_[p];
    auto& held = held_[static_cast<std::size_t>(action.chunk)];
    const Micro micro{p, action.micro};
    if (action.kind == ActionKind::forward) {
      held.insert(micro);
      minibatches_.insert(p);
      forwards_.insert(p);
      look();
      if (i == extent.last_forward) {
        forwards_.erase(p);
        interrupted_.erase(p);
      }
    } else if (action.kind == ActionKind::backward) {
      // One B for several F: it takes them all.
      const bool whole_minibatch = extent.backwards < extent.forwards;
      const bool adds = !backwards_begun_.insert(p);
      const auto taken = whole_minibatch ? held.lower_bound({p, 0}) : held.find(micro);
      const auto end = whole_minibatch       ? held.lower_bound({p + 1, 0})
                       : taken == held.end() ? taken
                                             : std::next(taken);
      waiting_ += static_cast<int>(std::distance(taken, end));
      look(adds);
      if (!split_) {
        if (adds) note_adding();
        waiting_ = 0;
        held.erase(taken, end);
      }
      if (i == extent.last_backward) backwards_begun_.erase(p);
    } else if (action.kind == ActionKind::weight_gradient) {
      if (!weights_begun_.insert(p)) note_adding();
      held.erase(micro);
      --waiting_;
    }
    if (i == extent.end && extent.backwards > 0) {
      minibatches_.erase(p);
      weights_begun_.erase(p);
      for (const Minibatch begun : forwards_) interrupted_.insert(begun);
      interrupted_.erase(p);
    }
  }

  void look(bool adds = false) {
    const auto size = [](const auto& set) { return static_cast<int>(set.size()); };
    most_.minibatches = std::max(most_.minibatches, size(minibatches_));
    most_.backwards = std::max(most_.backwards, waiting_);
    most_.old_versions = std::max(most_.old_versions, size(interrupted_));
    if (!backwards_begun_.empty()) {
      most_.old_versions_in_backward = std::max(most_.old_versions_in_backward, size(interrupted_));
    }
    keep_most(most_.passes, {size(forwards_), size(backwards_begun_), adds},
              [](const HeldCounts::Passes& a, const HeldCounts::Passes& b) {
                return a.forward >= b.forward && a.backward >= b.backward && a.adds >= b.adds;
              });
    now_.clear();
    for (const auto& held : held_) now_.push_back(size(held));
    most_.together = std::max(most_.together, held_together());
    keep_most(most_.micro_batches, now_, [](const std::vector<int>& a, const std::vector<int>& b) {
      return std::equal(a.begin(), a.end(), b.begin(), [](int x, int y) { return x >= y; });
    });
  }

  void note_adding() { most_.together_adding = std::max(most_.together_adding, held_together()); }

  int held_together() const {
    std::size_t sum = 0;
    for (const auto& held : held_) sum += held.size();
    return static_cast<int>(sum);
  }

  // Of moments, those that no other covers.
  template <class Moment, class Covers>
  static void keep_most(std::vector<Moment>& moments, const Moment& now, Covers covers) {
    for (const Moment& moment : moments) {
      if (covers(moment, now)) return;
    }
    std::erase_if(moments, [&](const Moment& moment) { return covers(now, moment); });
    moments.push_back(now);
  }

  const StageActions& actions_;
  int chunks_ = 1;
  bool split_ = false;
  std::map<Minibatch, Extent> extents_;
  std::vector<FewSorted<Micro>> held_;  // [chunk]
  FewSorted<Minibatch> minibatches_;
  FewSorted<Minibatch> forwards_;         // begun, with forwards to come
  FewSorted<Minibatch> backwards_begun_;  // likewise
  FewSorted<Minibatch> weights_begun_;    // likewise, of W
  FewSorted<Minibatch> interrupted_;      // of forwards_, those that an update came into
  int waiting_ = 0;                       // micro-batches of HeldCounts::backwards
  std::vector<int> now_;                  // micro-batches held, [chunk]
  HeldCounts most_;
};

}  // namespace

int HeldCounts::passes_at_once() const {
  int most = 0;
  for (const Passes& begun : passes) most = std::max(most, begun.forward + begun.backward);
  return most;
}

std::vector<HeldCounts> count_held(const Schedule& schedule) {
  std::vector<HeldCounts> counts;
  for (const StageActions& actions : schedule) {
    HeldCounts& held = counts.emplace_back(HeldCount(actions).run());
    held.ahead = count_messages_ahead(schedule, static_cast<int>(counts.size()) - 1, held.together);
  }
  return counts;
}

ScheduleRequest steady_request(ScheduleRule rule, ScheduleRequest request) {
  request.first = 0;
  request.end = 1;
  if (traits(rule).has_flush) return request;  // every minibatch is like the first
  request.end = 4 * traits(rule).under_way(request) + 4;
  return request;
}

const std::vector<HeldCounts>& HeldTable::of(ScheduleRule rule, const ScheduleRequest& request) {
  const Key key{rule,
                request.stages,
                request.chunks,
                request.micro_batches,
                request.in_flight,
                request.most_held};
  const auto at = known_.find(key);
  if (at != known_.end()) return at->second;
  return known_[key] = count_held(generate(rule, steady_request(rule, request)));
}

}  // namespace hetpipe
