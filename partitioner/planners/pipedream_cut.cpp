// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/pipedream_cut.h"

#include <algorithm>

#include "base/error.h"
#include "partitioner/planners/limits.h"

namespace hetpipe {
namespace {

// A number per state and count of machines, machines 0 ... groups.
class CutTable {
 public:
  CutTable(int states, int groups)
      : width_(static_cast<std::size_t>(groups) + 1),
        values_(static_cast<std::size_t>(states) * width_, kInfinity) {}
  double* row(int state) { return &values_[static_cast<std::size_t>(state) * width_]; }
  const double* row(int state) const { return &values_[static_cast<std::size_t>(state) * width_]; }

 private:
  std::size_t width_;
  std::vector<double> values_;
};

struct Choice {
  int after = -1;
  int replicas = 0;
};

class Hierarchy {
 public:
  Hierarchy(const PipedreamStates& states, const PipedreamRequest& request)
      : states_(states), request_(request), count_(states.size()) {
    ensure(!request.levels.empty() && count_ > 0, "PipeDream needs devices and layers");
    ensure(request.levels.size() == 1 ||
               (!request.most_behind && request.most_replicas == std::numeric_limits<int>::max()),
           "memory and most replicas are for one level");
    for (std::size_t level = 0; level + 1 < request.levels.size(); ++level) solve_pairs(level);
  }

  PipedreamCut cut() const {
    const std::size_t top = request_.levels.size() - 1;
    PipedreamCut result;
    const int used = best_groups(top, solve(top, -1).row(count_ - 1), &result.seconds);
    if (used > 0) unfold(top, -1, count_ - 1, {}, 0, result.stages);
    return result;
  }

 private:
  // A^{k-1}(i, j): what one group of the level needs for the layers between two states.
  double group_seconds(std::size_t level, int after, int state) const {
    if (level > 0) return pairs_[level - 1][pair(after, state)];
    return at(states_.seconds, state) - at(states_.seconds, after);
  }

  double whole_seconds(std::size_t level, int after, int state, int m) const {
    const double below = level > 0 ? request_.levels[level - 1].groups : 1;
    return (group_seconds(level, after, state) + all_reduce(level, after, state, m) / below) / m;
  }

  double last_seconds(std::size_t level, int after, int state, int m) const {
    const double bandwidth = request_.levels[level].bandwidth * m;
    double result = (group_seconds(level, after, state) + all_reduce(level, after, state, m)) / m;
    result = std::max(result, 2 * at(states_.output_bytes, after) / bandwidth);
    if (state + 1 < count_) {
      result = std::max(result, 2 * at(states_.output_bytes, state) / bandwidth);
    }
    return result;
  }

  double all_reduce(std::size_t level, int after, int state, int m) const {
    if (m == 1) return 0;  // also on a level of one group, which needs no link
    const double bytes = at(states_.parameter_bytes, state) - at(states_.parameter_bytes, after);
    return 4.0 * (m - 1) * bytes / (request_.levels[level].bandwidth * m);
  }

  // A^k(after, j, m) for every j and m.
  CutTable solve(std::size_t level, int after) const {
    const int groups = request_.levels[level].groups;
    CutTable best(count_, groups);
    for (int j = after + 1; j < count_; ++j) {
      if (!follows(after, j)) continue;
      double* row = best.row(j);
      for (int m = 1; m <= std::min(groups, request_.most_replicas); ++m) {
        if (fits(after, j, m, groups - m)) row[m] = whole_seconds(level, after, j, m);
      }
      for (const int s : states_.before[static_cast<std::size_t>(j)]) {
        if (!follows(after, s)) continue;
        const double* left = best.row(s);
        for (int replicas = 1; replicas < std::min(groups, most_replicas()); ++replicas) {
          const double last = last_.empty() ? last_seconds(level, s, j, replicas)
                                            : last_[pair(s, j)][static_cast<std::size_t>(replicas)];
          // What the memory allows takes longest to tell.
          int m = replicas + 1;
          while (m <= groups && std::max(left[m - replicas], last) >= row[m]) ++m;
          if (m > groups) continue;
          for (m = std::max(m, least_groups(s, j, replicas, groups)); m <= groups; ++m) {
            row[m] = std::min(row[m], std::max(left[m - replicas], last));
          }
        }
      }
    }
    return best;
  }

  void solve_pairs(std::size_t level) {
    pairs_.emplace_back(static_cast<std::size_t>(count_) * static_cast<std::size_t>(count_ + 1),
                        kInfinity);
    std::vector<double> seconds(pairs_.back().size(), kInfinity);
    // The same last stage stands behind many first states.
    const int groups = request_.levels[level].groups;
    last_.assign(pairs_.back().size(), {});
    for (int j = 0; j < count_; ++j) {
      for (const int s : states_.before[static_cast<std::size_t>(j)]) {
        last_[pair(s, j)].assign(static_cast<std::size_t>(groups) + 1, 0);
        for (int m = 1; m < groups; ++m) {
          last_[pair(s, j)][static_cast<std::size_t>(m)] = last_seconds(level, s, j, m);
        }
      }
    }
    for (int after = -1; after < count_; ++after) {
      const CutTable best = solve(level, after);
      for (int j = after + 1; j < count_; ++j) {
        if (follows(after, j)) best_groups(level, best.row(j), &seconds[pair(after, j)]);
      }
    }
    pairs_.back() = std::move(seconds);
    last_.clear();
  }

  // The most groups that reach the smallest objective; 0: none does.
  int best_groups(std::size_t level, const double* row, double* seconds) const {
    int best = request_.levels[level].groups;
    if (request_.spare == SpareDevices::may_rest) {
      for (int m = best - 1; m > 0; --m) {
        if (row[m] * kEqual < row[best]) best = m;
      }
    }
    *seconds = row[best];
    return row[best] < kInfinity ? best : 0;
  }

  // The stages between two states, of the level and all below it, appended.
  void unfold(std::size_t level, int after, int state, const std::vector<int>& outer, int outermost,
              std::vector<PipedreamStage>& stages) const {
    for (const auto& [choice, end] : choices(level, after, state)) {
      std::vector<int> per_level = outer;
      per_level.insert(per_level.begin(), choice.replicas);
      if (level > 0) {
        unfold(level - 1, choice.after, end, per_level, outermost, stages);
        if (outer.empty()) ++outermost;
        continue;
      }
      int replicas = 1;
      for (const int r : per_level) replicas *= r;
      stages.push_back({choice.after, end, replicas, per_level, outermost});
      if (outer.empty()) ++outermost;
    }
  }

  // One level's stages: among the cuts with the best objective the one whose times add up to least.
  std::vector<std::pair<Choice, int>> choices(std::size_t level, int after, int state) const {
    const int groups = request_.levels[level].groups;
    double bound = 0;
    const int used = best_groups(level, solve(level, after).row(state), &bound);
    bound *= kEqual;
    CutTable sum(count_, groups);
    const std::size_t width = static_cast<std::size_t>(groups) + 1;
    std::vector<Choice> chosen(static_cast<std::size_t>(count_) * width);
    const auto improve = [&](int j, int m, double value, Choice choice) {
      if (value >= sum.row(j)[m]) return;
      sum.row(j)[m] = value;
      chosen[static_cast<std::size_t>(j) * width + static_cast<std::size_t>(m)] = choice;
    };
    for (int j = after + 1; j <= state; ++j) {
      if (!follows(after, j)) continue;
      for (int m = 1; m <= std::min(used, request_.most_replicas); ++m) {
        const double seconds = whole_seconds(level, after, j, m);
        if (seconds <= bound && fits(after, j, m, groups - m)) improve(j, m, seconds, {after, m});
      }
      for (const int s : states_.before[static_cast<std::size_t>(j)]) {
        if (!follows(after, s)) continue;
        for (int replicas = 1; replicas < std::min(used, most_replicas()); ++replicas) {
          const double last = last_seconds(level, s, j, replicas);
          if (last > bound) continue;
          int m = replicas + 1;
          while (m <= used && sum.row(s)[m - replicas] + last >= sum.row(j)[m]) ++m;
          if (m > used) continue;
          for (m = std::max(m, least_groups(s, j, replicas, groups)); m <= used; ++m) {
            improve(j, m, sum.row(s)[m - replicas] + last, {s, replicas});
          }
        }
      }
    }
    std::vector<std::pair<Choice, int>> result;
    for (int j = state, m = used;;) {
      const Choice choice =
          chosen[static_cast<std::size_t>(j) * width + static_cast<std::size_t>(m)];
      ensure(choice.replicas > 0, "the best cut can be followed back");
      result.insert(result.begin(), {choice, j});
      if (choice.after == after) return result;
      j = choice.after;
      m -= choice.replicas;
    }
  }

  bool follows(int after, int state) const {
    if (after < 0) return true;
    const auto& before = states_.before[static_cast<std::size_t>(state)];
    return std::binary_search(before.begin(), before.end(), after);
  }

  bool fits(int after, int state, int replicas, int devices_after) const {
    return !request_.most_behind || devices_after <= request_.most_behind(after, state, replicas);
  }

  // Of the stages up to and with this one, so that it has the memory; groups + 1: never.
  int least_groups(int after, int state, int replicas, int groups) const {
    if (!request_.most_behind) return replicas + 1;
    const int most = request_.most_behind(after, state, replicas);
    return most < 0 ? groups + 1 : std::max(replicas + 1, groups - std::min(groups, most));
  }

  int most_replicas() const {  // one past it
    return request_.most_replicas == std::numeric_limits<int>::max() ? request_.most_replicas
                                                                     : request_.most_replicas + 1;
  }

  static double at(const std::vector<double>& values, int state) {
    return state < 0 ? 0 : values[static_cast<std::size_t>(state)];
  }

  std::size_t pair(int after, int state) const {
    return static_cast<std::size_t>(after + 1) * static_cast<std::size_t>(count_) +
           static_cast<std::size_t>(state);
  }

  const PipedreamStates& states_;
  const PipedreamRequest& request_;
  int count_;
  std::vector<std::vector<double>> pairs_;  // [level]: A^level between any two states
  std::vector<std::vector<double>> last_;   // [pair][replicas], while a level's pairs are solved
};

}  // namespace

PipedreamCut pipedream_cut(const PipedreamStates& states, const PipedreamRequest& request) {
  return Hierarchy(states, request).cut();
}

}  // namespace hetpipe
