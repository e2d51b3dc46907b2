// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <vector>

#include "base/ids.h"
#include "partitioner/cluster/cluster.h"
#include "partitioner/cost/memory.h"
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
// In a chain of layers the relaxed cost is the true one, so that the first descent ends at the
// optimum; skip tensors that cross several stages are what the depth-first part is for.
namespace hetpipe {

// What is minimised: the largest part time under the memory limits, or, for the report when nothing
// fits, the largest share needed / available of a device's memory.
enum class Objective { time, memory };

class PartitionSearch {
 public:
  PartitionSearch(const Cluster& cluster, const Profile& profile, const PartitionRequest& request);

  struct Found {
    std::vector<int> order;  // indices into PartitionRequest::devices
    std::vector<int> ends;
    double value = std::numeric_limits<double>::infinity();
  };
  std::optional<Found> best(Objective objective);

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
    StageFootprint ledger;  // bytes that the ledger charges for each byte of the footprint
    // The best link from any earlier and from any later position.
    Link before;
    Link after;
  };

  void enumerate(std::vector<int>& order, std::vector<bool>& used);
  bool may_follow(const std::vector<bool>& used, std::size_t device) const;
  bool can_win(const std::vector<int>& order, const std::vector<bool>& used) const;
  void set_order(const std::vector<int>& order);
  void search_order(const std::vector<int>& order);
  int reach(const PartitionDevice& device, int from) const;
  void bound_starts();
  void choose_ways();
  bool tighten_starts();
  bool may_hold(int k, int layer) const;
  void bound_suffixes();
  void descend(int k, int s);
  bool dominated(int k, int s);

  Bound without_messages(int k, int s, int e) const;  // grows with e
  Bound relaxed(int k, int s, int e) const;           // whatever the other cuts are
  Bound with_cuts(int k) const;                       // with the cuts made so far
  std::int64_t memory(int k, int s, int e, std::int64_t received, std::int64_t sent) const;
  double value(const Bound& bound, int k) const;
  bool wins(double value) const { return value < found_.value * (1 - 1e-12); }

  const Link& link(int from, int to) const;  // between positions
  const PartitionDevice& at(int k) const { return *positions_[static_cast<std::size_t>(k)].device; }
  int start(int k) const { return k == 0 ? 0 : cuts_[static_cast<std::size_t>(k - 1)]; }

  Objective objective_ = Objective::time;
  PartitionModel m_;

  std::vector<Position> positions_;
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
};

}  // namespace hetpipe
