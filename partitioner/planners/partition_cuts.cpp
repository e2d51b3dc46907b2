// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/partition_search.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace hetpipe {
void PartitionSearch::search_order(const std::vector<int>& order) {
  set_order(order);
  work_ += std::int64_t{m_.stages} * m_.layers;
  bound_starts();
  for (int k = 0; k <= m_.stages; ++k) {
    if (earliest_[at_index(k)] > latest_[at_index(k)]) return;
  }
  // Where parts may start tells which stages may hold a skip tensor's other end, and that sharpens
  // the relaxed costs, which in turn rule out starts.
  do {
    choose_ways();
    bound_suffixes();
    if (!wins(suffix_[0][0])) return;
  } while (m_.has_skips && !spent() && tighten_starts());
  cuts_.clear();
  seen_.clear();
  // One order may be hard: the others get their share too.
  order_limit_ = work_ + std::max<std::int64_t>((work_limit_ - work_) / 2, 1);
  descend(0, 0);
}

// The layers at which part k may start, without messages: no later than the parts before it reach,
// no earlier than those from it on can finish.
void PartitionSearch::bound_starts() {
  earliest_.assign(at_index(m_.stages + 1), m_.layers);
  latest_.assign(at_index(m_.stages + 1), m_.layers);
  latest_[0] = 0;
  const bool bounded = objective_ == Objective::time && found_.value < kInfinity;
  // With a layer more before it a part may need less where it has a tied weight's owner then.
  const bool by_memory = objective_ == Objective::time && m_.cuts->tied.empty();
  for (int k = 1; k < m_.stages; ++k) {
    const int most = m_.layers - (m_.stages - k);
    const int before = latest_[at_index(k - 1)];
    latest_[at_index(k)] = by_memory ? std::min(most, farthest_that_fits(k - 1, before)) : most;
    if (bounded) {
      latest_[at_index(k)] = std::min(latest_[at_index(k)], reach(at(k - 1), before));
    }
  }
  for (int k = m_.stages - 1; k >= 0; --k) {
    earliest_[at_index(k)] =
        by_memory ? std::max(k, first_that_fits(k, earliest_[at_index(k + 1)])) : k;
    if (!bounded) continue;
    const auto& compute = at(k).compute();
    const double limit = compute[at_index(earliest_[at_index(k + 1)])] - found_.value;
    const auto first = std::upper_bound(compute.begin(), compute.end(), limit);
    earliest_[at_index(k)] =
        std::max(earliest_[at_index(k)], static_cast<int>(first - compute.begin()));
  }
  for (std::size_t k = 0; k < ranges_.size(); ++k) {
    earliest_[k + 1] = std::max(earliest_[k + 1], ranges_[k].first);
    latest_[k + 1] = std::min(latest_[k + 1], ranges_[k].second);
  }
}

// How far part k may reach from layer s on within its memory; each layer more needs more.
int PartitionSearch::farthest_that_fits(int k, int s) const {
  int& known = positions_[at_index(k)].farthest[at_index(s)];
  if (known >= 0) return known;
  int low = s;
  for (int high = m_.layers; low < high;) {
    const int middle = low + (high - low + 1) / 2;
    if (fits(k, s, middle, 0, 0, {})) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return known = low;
}

int PartitionSearch::first_that_fits(int k, int e) const {
  int high = e;
  for (int low = 0; low < high;) {
    const int middle = low + (high - low) / 2;
    if (fits(k, middle, e, 0, 0, {})) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return high;
}

bool PartitionSearch::may_hold(int k, int layer) const {
  return earliest_[at_index(k)] <= layer && layer < latest_[at_index(k + 1)];
}

// For every part and layer: the best link from an earlier and from a later part that may hold the
// layer.
void PartitionSearch::choose_ways() {
  if (!m_.has_skips) return;  // then every tensor comes from the part before
  work_ += std::int64_t{m_.stages} * m_.stages * m_.layers;
  const Link none{1e-300, kInfinity, false};
  for (std::vector<std::vector<Link>>* ways : {&before_, &after_}) {
    ways->resize(at_index(m_.stages));
    for (std::vector<Link>& of_part : *ways) of_part.resize(at_index(m_.layers));
  }
  // Between two of these layers the same parts may hold all.
  std::vector<int> borders{0, m_.layers};
  for (int k = 0; k < m_.stages; ++k) {
    borders.push_back(earliest_[at_index(k)]);
    borders.push_back(latest_[at_index(k + 1)]);
  }
  std::sort(borders.begin(), borders.end());
  for (int k = 0; k < m_.stages; ++k) {
    for (std::size_t b = 0; b + 1 < borders.size(); ++b) {
      const int first = borders[b];
      const int end = borders[b + 1];
      if (first == end) continue;
      Link earlier = none;
      Link later = none;
      for (int other = 0; other < m_.stages; ++other) {
        if (other == k || !may_hold(other, first)) continue;
        Link& way = other < k ? earlier : later;
        way = better(way, link(other, k));
      }
      // Part k asks for what comes before it, and for what comes behind.
      if (first < latest_[at_index(k)]) {
        std::fill_n(before_[at_index(k)].begin() + first, end - first, earlier);
      }
      if (end > earliest_[at_index(k + 1)]) {
        std::fill_n(after_[at_index(k)].begin() + first, end - first, later);
      }
    }
  }
}

// suffix_[k][s] = min over e of max(relaxed cost of [s, e) at k, suffix_[k + 1][e]).
//
// The first grows with e, the second mostly falls: from where they meet outwards, few e are left
// whose two parts are both below the best one so far.
void PartitionSearch::bound_suffixes() {
  suffix_.assign(at_index(m_.stages + 1), std::vector<double>(at_index(m_.layers + 1), kInfinity));
  suffix_[at_index(m_.stages)][at_index(m_.layers)] = 0;
  for (int k = m_.stages - 1; k >= 0; --k) {
    const auto& rest = suffix_[at_index(k + 1)];
    for (int s = earliest_[at_index(k)]; s <= latest_[at_index(k)]; ++s) {
      if (!allowed(s)) continue;
      double& best = suffix_[at_index(k)][at_index(s)];
      const int first = std::max(s + 1, earliest_[at_index(k + 1)]);
      const int last = latest_[at_index(k + 1)];
      // False when no larger e can be better.
      const auto look = [&](int e) {
        if (!allowed(e)) return true;
        ++work_;
        if (!may_be_below(std::min(to_win(), best), k, s, e)) return false;
        if (rest[at_index(e)] >= best || !wins(rest[at_index(e)])) return true;
        best = std::min(best, std::max(rest[at_index(e)], relaxed(best, k, s, e)));
        return true;
      };
      int low = first;
      for (int high = last + 1; low < high;) {
        const int middle = low + (high - low) / 2;
        const int cut = next_allowed_[at_index(middle)];
        if (may_be_below(rest[at_index(cut)], k, s, cut)) {
          low = cut + 1;
        } else {
          high = middle;
        }
      }
      for (int e = low; e <= last && look(e); ++e) {
      }
      for (int e = std::min(low, last + 1) - 1; e >= first; --e) {
        if (rest[at_index(e)] < best) look(e);
      }
    }
  }
}

// Gives up starts through which no cut can win; says whether any range became smaller.
bool PartitionSearch::tighten_starts() {
  std::vector<std::vector<double>> prefix(at_index(m_.stages + 1),
                                          std::vector<double>(at_index(m_.layers + 1), kInfinity));
  prefix[0][0] = 0;
  bool smaller = false;
  for (int k = 0; k + 1 < m_.stages; ++k) {
    const auto& so_far = prefix[at_index(k)];
    const int first_start = earliest_[at_index(k)];
    for (int e = std::max(first_start + 1, earliest_[at_index(k + 1)]);
         e <= latest_[at_index(k + 1)]; ++e) {
      if (!allowed(e) || !wins(suffix_[at_index(k + 1)][at_index(e)])) continue;
      double& best = prefix[at_index(k + 1)][at_index(e)];
      // The nearest starts first: they leave this part the least, until nothing smaller is left.
      for (int s = std::min(e - 1, latest_[at_index(k)]); s >= first_start; --s) {
        if (!allowed(s)) continue;
        ++work_;
        if (!may_be_below(std::min(to_win(), best), k, s, e)) break;
        if (so_far[at_index(s)] >= best || !wins(so_far[at_index(s)])) continue;
        best = std::min(best, std::max(so_far[at_index(s)], relaxed(best, k, s, e)));
      }
    }
    int first = m_.layers;
    int last = 0;
    for (int e = earliest_[at_index(k + 1)]; e <= latest_[at_index(k + 1)]; ++e) {
      if (!wins(prefix[at_index(k + 1)][at_index(e)]) ||
          !wins(suffix_[at_index(k + 1)][at_index(e)])) {
        continue;
      }
      first = std::min(first, e);
      last = e;
    }
    smaller = smaller || first > earliest_[at_index(k + 1)] || last < latest_[at_index(k + 1)];
    earliest_[at_index(k + 1)] = first;
    latest_[at_index(k + 1)] = last;
  }
  return smaller;
}

void PartitionSearch::descend(int k, int s) {
  if (k == m_.stages) {
    double worst = 0;
    for (int a = 0; a < m_.stages; ++a) worst = std::max(worst, value(with_cuts(a), a));
    if (wins(worst)) found_ = {order_, cuts_, worst};
    return;
  }
  if ((work_ >= order_limit_ && found_.value < kInfinity) || spent()) {
    give_up(suffix_[0][0]);
    return;
  }
  if (m_.has_skips && k > 0 && dominated(k, s)) return;
  std::vector<std::pair<double, int>> ends;  // bound, end
  for (int e = std::max(s + 1, earliest_[at_index(k + 1)]); e <= latest_[at_index(k + 1)]; ++e) {
    if (!allowed(e)) continue;
    if (!may_be_below(to_win(), k, s, e)) break;
    const double rest = suffix_[at_index(k + 1)][at_index(e)];
    if (!wins(rest)) continue;
    const double bound = std::max(rest, relaxed(to_win(), k, s, e));
    if (wins(bound)) ends.emplace_back(bound, e);
  }
  std::sort(ends.begin(), ends.end());
  for (const auto& [bound, e] : ends) {
    if (!wins(bound)) return;
    cuts_.push_back(e);
    bool open = true;
    for (int a = k; a >= 0 && open; --a) open = wins(value(with_cuts(a), a));
    if (open) descend(k + 1, e);
    cuts_.pop_back();
  }
}

// What comes after a cut depends on what came before only through the parts that hold a tensor
// still to be sent, and through the costs so far. Of two beginnings with the same such parts, one
// that costs nowhere less than the other can be left out.
bool PartitionSearch::dominated(int k, int s) {
  std::vector<int> key{k, s};
  std::vector<bool> live(at_index(k), false);
  const auto holder_of = [&](int layer) {
    const auto holder = std::upper_bound(cuts_.begin(), cuts_.end(), layer) - cuts_.begin();
    key.push_back(static_cast<int>(holder));
    live[static_cast<std::size_t>(holder)] = true;
  };
  for (const int producer : m_.cuts->crossing[at_index(s)]) holder_of(producer);
  for (const TiedWeight& tied : m_.cuts->tied) {
    if (tied.owner >= s || !tied.used_from(s)) continue;
    holder_of(tied.owner);  // whose weights are still to be sent; a gradient comes to the last one
    holder_of(tied.last_before(s));
  }
  std::vector<double> costs{0};  // the worst of the finished parts, then each unfinished one
  for (int a = 0; a < k; ++a) {
    const Bound bound = with_cuts(a);
    if (live[at_index(a)]) {
      costs.push_back(bound.seconds);
      costs.push_back(static_cast<double>(bound.memory));
    } else {
      costs[0] = std::max(costs[0], value(bound, a));
    }
  }
  auto& seen = seen_[std::move(key)];
  const auto no_more = [](const std::vector<double>& x, const std::vector<double>& y) {
    return std::equal(x.begin(), x.end(), y.begin(), [](double p, double q) { return p <= q; });
  };
  for (const auto& other : seen) {
    if (no_more(other, costs)) return true;
  }
  std::erase_if(seen, [&](const auto& other) { return no_more(costs, other); });
  seen.push_back(std::move(costs));
  return false;
}

std::optional<std::vector<int>> PartitionSearch::smallest_sum(const std::vector<int>& order,
                                                              double limit) {
  objective_ = Objective::time;
  found_ = {};
  found_.value = limit * (1 + 1e-9);  // what the starts are bounded by
  set_order(order);
  bound_starts();
  choose_ways();
  const auto width = at_index(m_.layers + 1);
  std::vector<std::vector<double>> sum(at_index(m_.stages + 1),
                                       std::vector<double>(width, kInfinity));
  std::vector<std::vector<int>> end(at_index(m_.stages), std::vector<int>(width, 0));
  sum[at_index(m_.stages)][at_index(m_.layers)] = 0;
  for (int k = m_.stages - 1; k >= 0; --k) {
    for (int s = earliest_[at_index(k)]; s <= latest_[at_index(k)]; ++s) {
      if (!allowed(s)) continue;
      for (int e = std::max(s + 1, earliest_[at_index(k + 1)]); e <= latest_[at_index(k + 1)];
           ++e) {
        if (!allowed(e)) continue;
        const double seconds = computing(k, s, e);
        if (seconds > limit) break;
        const double rest = sum[at_index(k + 1)][at_index(e)];
        if (rest == kInfinity) continue;
        if (seconds + rest >= sum[at_index(k)][at_index(s)]) continue;
        const double cost = relaxed(found_.value, k, s, e);
        if (cost > limit || cost + rest >= sum[at_index(k)][at_index(s)]) continue;
        sum[at_index(k)][at_index(s)] = cost + rest;
        end[at_index(k)][at_index(s)] = e;
      }
    }
  }
  if (sum[0][0] == kInfinity) return std::nullopt;
  std::vector<int> ends;
  for (int k = 0, s = 0; k < m_.stages; ++k) ends.push_back(s = end[at_index(k)][at_index(s)]);
  return ends;
}

}  // namespace hetpipe
