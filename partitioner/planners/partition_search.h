// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "partitioner/cluster/cluster.h"
#include "partitioner/planners/limits.h"
#include "partitioner/planners/partition.h"
#include "partitioner/planners/partition_model.h"
#include "partitioner/profile/profile.h"

// The search behind partition.h, over plain arrays. Branch and bound, exact:
//
//   orders of the devices, one per symmetry class
//     a relaxed cost of the part [s, e) at position k, which no choice of the other cuts can beat
//       -> dynamic programming from the last part to the first: a bound for every suffix
//         -> depth-first over the cuts, best bound first, with what the cuts made so far fix
//         exactly
//
// Where the work allowed (PartitionRequest::work) runs out, what is left is given up with its
// bound.
//
// In a chain of layers the relaxed cost is the true one, so that the first descent ends at the
// optimum; skip tensors that cross several stages are what the depth-first part is for.
namespace hetpipe {

// The objective: the time of the slowest part within memory, or, for the report when nothing
// fits, the largest share needed / available of a device's memory.
enum class Objective { time, memory };

// A link that is as good as the better of two in each respect.
inline Link better(const Link& a, const Link& b) {
  return {std::max(a.bandwidth, b.bandwidth), std::min(a.latency, b.latency), false};
}

class PartitionSearch {
 public:
  // patience: how many times the work is worth it while there is no cut at all.
  PartitionSearch(const Cluster& cluster, const Profile& profile, const PartitionRequest& request,
                  int patience = 10);

  struct Found {
    std::vector<int> order;  // indices into PartitionRequest::devices
    std::vector<int> ends;
    double value = std::numeric_limits<double>::infinity();
  };
  // Nothing: no cut fits, or none was found within the work (see exact()).
  std::optional<Found> best(Objective objective);

  // Of the last best(): no order and no cut was given up before it was ruled out.
  bool exact() const { return lower_ == kNothingOpen && !likely_only_; }
  // No cut of any order is better than this: the value found where that is exact, else what the
  // relaxed costs of everything given up allow.
  double bound() const { return likely_only_ ? 0 : std::min(found_.value, lower_); }

  // Among the cuts of one order whose relaxed part times stay within `limit`, that of the smallest
  // sum.
  std::optional<std::vector<int>> smallest_sum(const std::vector<int>& order, double limit);

 private:
  struct Bound {
    double seconds = 0;
    std::int64_t memory = 0;
  };
  struct Position {  // of an order
    const PartitionDevice* device = nullptr;
    const PipelineBound* need = nullptr;
    int* farthest = nullptr;  // [start], see farthest_that_fits(); below 0: not known yet
    // The best link from any earlier and from any later position.
    Link before;
    Link after;
  };

  static constexpr double kNothingOpen = std::numeric_limits<double>::infinity();

  void allow_all();
  void allow_likely();
  void allow_near(const std::vector<int>& ends);
  void allow_ranges(std::vector<std::pair<int, int>> ends);
  bool allowed(int cut) const { return next_allowed_[at_index(cut)] == cut; }
  void try_orders();
  void try_good_orders();
  bool spent() const;
  void give_up(double bound) { lower_ = std::min(lower_, bound); }
  double perfect_split(int covered, const std::vector<bool>& used);
  void enumerate(std::vector<int>& order, std::vector<bool>& used);
  bool may_follow(const std::vector<bool>& used, std::size_t device) const;
  bool can_win(const std::vector<int>& order, const std::vector<bool>& used);
  void set_order(const std::vector<int>& order);
  void search_order(const std::vector<int>& order);
  int reach(const PartitionDevice& device, int from) const;
  void bound_starts();
  // Ends and starts of part k by its memory alone, without messages.
  int farthest_that_fits(int k, int s) const;
  int first_that_fits(int k, int e) const;
  void choose_ways();
  bool tighten_starts();
  bool may_hold(int k, int layer) const;
  void bound_suffixes();
  void descend(int k, int s);
  bool dominated(int k, int s);

  double computing(int k, int s, int e) const {
    return at(k).compute()[at_index(e)] - at(k).compute()[at_index(s)];
  }
  // Without messages; false from some e on.
  bool may_be_below(double limit, int k, int s, int e) const;
  // The value whatever the other cuts are; infinite where it is not below the limit.
  double relaxed(double limit, int k, int s, int e);
  Bound with_cuts(int k);  // with the cuts made so far
  std::int64_t memory(int k, int s, int e, std::int64_t received, std::int64_t sent,
                      const PipelineBound::Tied& tied) const;
  bool fits(int k, int s, int e, std::int64_t received, std::int64_t sent,
            const PipelineBound::Tied& tied) const;
  double memory_value(int k, std::int64_t bytes) const;
  // Of tied weights, per minibatch, where the other parts are not fixed.
  struct TiedBound {
    double seconds = 0;
    PipelineBound::Tied bytes;
  };
  TiedBound tied_relaxed(int k, int s, int e) const;
  TiedBound tied_with_cuts(int k, int s, int e) const;
  double value(const Bound& bound, int k) const;
  double to_win() const { return found_.value * (1 - 1e-12); }
  bool wins(double value) const { return value < to_win(); }

  const Link& link(int from, int to) const;  // between positions
  const PartitionDevice& at(int k) const { return *positions_[static_cast<std::size_t>(k)].device; }
  int start(int k) const { return k == 0 ? 0 : cuts_[static_cast<std::size_t>(k - 1)]; }

  Objective objective_ = Objective::time;
  PartitionModel m_;

  // [l]: the first cut at or after layer l that is looked at.
  std::vector<int> next_allowed_;
  std::vector<std::pair<int, int>> ranges_;  // of the end of each stage but the last, or empty
  std::optional<LikelyPartition> likely_;
  int likely_cuts_ = 0;
  bool likely_only_ = false;

  std::vector<Position> positions_;
  std::map<std::pair<const KindTables*, int>, std::vector<int>> farthest_;  // by position
  std::vector<int> order_;
  std::vector<int> earliest_;  // [k]: where part k may start
  std::vector<int> latest_;
  // [k][layer]: the best link to part k from an earlier or later part that may hold the layer.
  std::vector<std::vector<Link>> before_;
  std::vector<std::vector<Link>> after_;
  // Costs of the beginnings searched so far, see dominated().
  std::map<std::vector<int>, std::vector<std::vector<double>>> seen_;
  std::vector<std::vector<double>> suffix_;  // [k][s]: bound for the parts k ... from layer s on
  std::vector<int> cuts_;                    // ends of the parts fixed so far
  Found found_;

  // perfect_split() by the devices used.
  std::unordered_map<std::vector<bool>, std::vector<double>> splits_;

  // Work is counted in tensors looked at by relaxed() and with_cuts(), and orders begun.
  std::int64_t work_ = 0;
  std::int64_t work_limit_ = 0;   // of best()
  std::int64_t first_limit_ = 0;  // likewise, while there is no cut at all
  std::int64_t order_limit_ = 0;  // work_ at which the present order is given up
  double lower_ = kNothingOpen;   // the smallest bound of what was given up
};

}  // namespace hetpipe
