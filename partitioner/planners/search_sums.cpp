// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/search_sums.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "base/index.h"
#include "partitioner/cost/memory_bound.h"
#include "partitioner/planners/search_traffic.h"
#include "partitioner/profile/tied.h"

namespace hetpipe {
namespace {

constexpr int kMinibatches = 3;  // the last one tells the pace

// One virtual worker by itself, in seconds.
struct Passage {
  double all = 0;             // of a minibatch
  std::vector<double> fill;   // [stage]: until its first forward pass
  std::vector<double> drain;  // [stage]: from its last backward pass to the end
};

// Where all forward passes come first, the slowest stage of each direction is waited for, and a
// stage behind a slower one is done before it.
Passage passage_of(const ScheduleTraits& schedule, const WorkerPace& pace, int micro_batches) {
  const std::size_t stages = pace.stages.size();
  std::vector<double> backwards;
  for (std::size_t k = 0; k < stages; ++k) {
    backwards.push_back(pace.stages[k] - pace.forwards[k]);
  }
  double share = 1.0 / micro_batches;
  if (schedule.backward == BackwardForm::split) share *= kBubbleOfSplit;
  Passage passage;
  double fill = 0, drain = 0;
  for (std::size_t k = 0; k < stages; ++k) {
    passage.fill.push_back(fill);
    passage.drain.push_back(drain);
    fill += share * pace.forwards[k];
    drain += share * backwards[k];
  }
  double busiest = pace.bottleneck;
  if (schedule.forwards_first) {
    const double most = *std::max_element(backwards.begin(), backwards.end());
    busiest = *std::max_element(pace.forwards.begin(), pace.forwards.end()) + most;
    double behind = 0;
    for (std::size_t k = stages; k-- > 0;) {
      behind = std::max(behind, backwards[k]);
      passage.drain[k] += (1 - share) * (most - behind);
    }
  }
  passage.all = busiest + share * (pace.sum - busiest);
  return passage;
}

// Layers with the same devices.
struct Summed {
  std::vector<std::size_t> stages;  // [virtual worker]
  double bytes = 0;
  double tail = 0;  // seconds that the last piece takes, when the others are through
};

// One of a chain's, in one direction.
struct Hop {
  std::size_t sum = 0;
  std::size_t joined = 0;  // it begins when the members up to this one have joined
  int out = -1;            // node; inside of one: none
  int in = -1;
  double seconds = 0;
  double begin = 0;
};

class Sums {
 public:
  Sums(const SearchSpace& space, const Plan& plan) : plan_(plan) {
    const PlanRequest& request = space.row().request;
    collect(own_parameter_bytes(request.profile));
    for (std::size_t s = 0; s < sums_.size(); ++s) add_hops(request.cluster, s);
  }

  // When every virtual worker may begin the next minibatch, after it began this one at these times.
  std::vector<double> next(const std::vector<double>& starts,
                           const std::vector<Passage>& passages) {
    for (Hop& hop : hops_) {
      hop.begin = 0;
      for (std::size_t vw = 0; vw <= hop.joined; ++vw) {
        const Passage& passage = passages[vw];
        const std::size_t stage = sums_[hop.sum].stages[vw];
        hop.begin = std::max(hop.begin, starts[vw] + passage.all - passage.drain[stage]);
      }
    }
    std::stable_sort(hops_.begin(), hops_.end(),
                     [](const Hop& a, const Hop& b) { return a.begin < b.begin; });
    std::vector<double> done(sums_.size(), 0);
    std::vector<double> out(nodes_.size(), 0), in(nodes_.size(), 0);  // until when it is busy
    for (const Hop& hop : hops_) {
      double end = hop.begin + hop.seconds;
      if (hop.out >= 0) {
        at(out, hop.out) = std::max(at(out, hop.out), hop.begin) + hop.seconds;
        at(in, hop.in) = std::max(at(in, hop.in), hop.begin) + hop.seconds;
        end = std::max(at(out, hop.out), at(in, hop.in));
      }
      done[hop.sum] = std::max(done[hop.sum], end);
    }
    std::vector<double> result;
    for (std::size_t vw = 0; vw < starts.size(); ++vw) {
      result.push_back(starts[vw] + passages[vw].all);
      for (std::size_t s = 0; s < sums_.size(); ++s) {
        const double fill = passages[vw].fill[sums_[s].stages[vw]];
        result.back() = std::max(result.back(), done[s] + sums_[s].tail - fill);
      }
    }
    return result;
  }

 private:
  const DeviceName& device(const Summed& sum, std::size_t vw) const {
    return plan_.virtual_workers[vw].stages[sum.stages[vw]].devices.front();
  }

  void collect(const std::vector<std::int64_t>& bytes) {
    std::set<int> cuts;  // of any virtual worker
    for (const PlanVirtualWorker& worker : plan_.virtual_workers) {
      for (const PlanStage& stage : worker.stages) cuts.insert(stage.end_layer);
    }
    std::vector<std::size_t> stages(plan_.virtual_workers.size(), 0);
    int first = 0;
    for (const int end : cuts) {
      for (std::size_t vw = 0; vw < stages.size(); ++vw) {
        if (plan_.virtual_workers[vw].stages[stages[vw]].end_layer <= first) ++stages[vw];
      }
      Summed sum{stages};
      for (int l = first; l < end; ++l) sum.bytes += static_cast<double>(at(bytes, l));
      if (sum.bytes > 0) sums_.push_back(std::move(sum));
      first = end;
    }
  }

  void add_hops(const Cluster& cluster, std::size_t s) {
    Summed& sum = sums_[s];
    const std::size_t members = sum.stages.size();
    double gpus = 1;
    for (std::size_t vw = 0; vw < members; ++vw) {
      gpus = std::max<double>(gpus, cluster.kind_of(device(sum, vw)).gpus);
    }
    double slowest = 0;
    for (std::size_t vw = 0; vw + 1 < members; ++vw) {
      const DeviceName& one = device(sum, vw);
      const DeviceName& other = device(sum, vw + 1);
      const Link link = cluster.link(one, other);
      const double seconds = gpus * sum.bytes / std::max(link.bandwidth, 1e-300);
      int a = -1, b = -1;
      if (one.node != other.node) {
        a = number(one.node);
        b = number(other.node);
      }
      hops_.push_back({s, vw + 1, a, b, seconds});
      hops_.push_back({s, members - 1, b, a, seconds});
      slowest = std::max(slowest, seconds);
      sum.tail += 2 * link.latency;
    }
    const auto all = static_cast<std::int64_t>(gpus * sum.bytes);
    const auto piece = static_cast<double>(all_reduce_piece(all, static_cast<int>(members)));
    const auto pieces = static_cast<double>(2 * (members - 1) - 1);
    sum.tail += pieces * slowest * std::min(1.0, piece / (gpus * sum.bytes));
  }

  int number(const std::string& node) {
    return nodes_.emplace(node, static_cast<int>(nodes_.size())).first->second;
  }

  const Plan& plan_;
  std::vector<Summed> sums_;
  std::vector<Hop> hops_;
  std::map<std::string, int> nodes_;
};

}  // namespace

double seconds_of_sums(const SearchSpace& space, const Plan& plan,
                       const std::vector<WorkerPace>& paces) {
  if (paces.size() < 2) return 0;
  const ScheduleTraits& schedule = traits(space.row().parts.schedule);
  std::vector<Passage> passages;
  double longest = 0;
  for (const WorkerPace& pace : paces) {
    passages.push_back(passage_of(schedule, pace, plan.micro_batches));
    longest = std::max(longest, passages.back().all);
  }
  Sums sums(space, plan);
  std::vector<double> starts(paces.size(), 0);
  double pace = 0;
  for (int p = 0; p < kMinibatches; ++p) {
    const double before = *std::max_element(starts.begin(), starts.end());
    starts = sums.next(starts, passages);
    pace = *std::max_element(starts.begin(), starts.end()) - before;
  }
  return std::max(0.0, pace - longest);
}

}  // namespace hetpipe
