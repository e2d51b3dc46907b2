// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <numeric>

#include "base/error.h"
#include "partitioner/planners/dapple_search.h"

// What a DAPPLE plan costs in time.
namespace hetpipe {
namespace {

double between(const RunningSum& sum, int first, int end) {
  return sum[static_cast<std::size_t>(end)] - sum[static_cast<std::size_t>(first)];
}

int kind_of(const DapplePool& pool, int node, int device) {
  return pool.nodes[static_cast<std::size_t>(node)][static_cast<std::size_t>(device)];
}

// Of one micro-batch, for a device of each kind in a stage. Equal shares where nothing takes time.
struct Shares {
  std::vector<double> of_kind;  // [kind]; 0 where the stage has none
  std::vector<std::pair<int, double>> of_node;
};

Shares shares_of(const DappleModel& model, const DapplePool& pool, const DappleStage& stage) {
  const std::size_t kinds = model.forward.size();
  std::vector<double> count(kinds, 0);
  for (const auto& run : stage.devices) {
    for (int d = run.begin; d < run.begin + run.count; ++d) {
      ++count[static_cast<std::size_t>(kind_of(pool, run.node, d))];
    }
  }
  std::vector<double> speed(kinds, 0);
  bool timeless = false;
  for (std::size_t k = 0; k < kinds; ++k) {
    if (count[k] == 0) continue;
    const double seconds = between(model.forward[k], stage.first_layer, stage.end_layer) +
                           between(model.backward[k], stage.first_layer, stage.end_layer);
    timeless = timeless || seconds <= 0;
    speed[k] = seconds > 0 ? 1 / seconds : 0;
  }
  if (timeless) std::fill(speed.begin(), speed.end(), 1.0);
  double all = 0;
  for (std::size_t k = 0; k < kinds; ++k) all += count[k] * speed[k];
  Shares shares{std::vector<double>(kinds, 0), {}};
  for (std::size_t k = 0; k < kinds; ++k) {
    if (count[k] > 0) shares.of_kind[k] = speed[k] / all;
  }
  for (const auto& run : stage.devices) {
    double share = 0;
    for (int d = run.begin; d < run.begin + run.count; ++d) {
      share += shares.of_kind[static_cast<std::size_t>(kind_of(pool, run.node, d))];
    }
    shares.of_node.emplace_back(run.node, share);
  }
  return shares;
}

double share_on(const Shares& shares, int node) {
  for (const auto& [n, share] : shares.of_node) {
    if (n == node) return share;
  }
  return 0;
}

PipelineBlock stage_block(const DappleModel& model, const DapplePool& pool,
                          const DappleStage& stage, const Shares& shares) {
  PipelineBlock block;
  for (std::size_t k = 0; k < shares.of_kind.size(); ++k) {
    const double share = shares.of_kind[k];
    const double forward = share * between(model.forward[k], stage.first_layer, stage.end_layer);
    double backward = share * between(model.backward[k], stage.first_layer, stage.end_layer);
    if (stage.recompute) backward += forward;
    block.forward = std::max(block.forward, forward);
    block.backward = std::max(block.backward, backward);
  }
  const int n = stage.replicas();
  if (n > 1) {
    const bool cross = stage.devices.size() > 1;
    const double bytes =
        2.0 * (n - 1) / n * between(model.parameter_bytes, stage.first_layer, stage.end_layer);
    block.all_reduce = cross ? bytes / pool.inter_bandwidth + 2 * (n - 1) * pool.inter_latency
                             : bytes / pool.intra_bandwidth + 2 * (n - 1) * pool.intra_latency;
  }
  return block;
}

// Every sample goes from the device that made it to the one that takes it. Interfaces of nodes and
// links inside them work at the same time.
PipelineBlock transfer_block(const DapplePool& pool, const Shares& from, const Shares& to,
                             double bytes) {
  double seconds = 0;
  bool cross = false;
  for (const auto& [node, share] : from.of_node) {
    const double stays = share_on(to, node);
    const double leaves = share * (1 - stays) * bytes;
    cross = cross || leaves > 1e-9 * bytes;
    seconds = std::max(seconds, leaves / pool.inter_bandwidth);
    if (stays > 0) seconds = std::max(seconds, share * stays * bytes / pool.intra_bandwidth);
  }
  for (const auto& [node, share] : to.of_node) {
    const double comes = share * (1 - share_on(from, node)) * bytes;
    seconds = std::max(seconds, comes / pool.inter_bandwidth);
  }
  seconds += cross ? pool.inter_latency : pool.intra_latency;
  return {seconds, seconds, 0};
}

}  // namespace

int DapplePool::devices() const {
  std::size_t count = 0;
  for (const auto& node : nodes) count += node.size();
  return static_cast<int>(count);
}

int DappleStage::replicas() const {
  int count = 0;
  for (const Run& run : devices) count += run.count;
  return count;
}

std::vector<PipelineBlock> dapple_blocks(const DappleModel& model, const DapplePool& pool,
                                         std::span<const DappleStage> stages) {
  std::vector<PipelineBlock> blocks;
  Shares before;
  for (const DappleStage& stage : stages) {
    Shares shares = shares_of(model, pool, stage);
    if (!blocks.empty()) {
      const auto cut = static_cast<std::size_t>(stage.first_layer);
      blocks.push_back(transfer_block(pool, before, shares, model.crossing_bytes[cut]));
    }
    blocks.push_back(stage_block(model, pool, stage, shares));
    before = std::move(shares);
  }
  return blocks;
}

std::vector<DappleStage::Run> next_devices(const DapplePool& pool, std::span<const int> used,
                                           int need, DevicePolicy policy) {
  const std::size_t nodes = pool.nodes.size();
  std::vector<int> take(nodes, 0);
  const auto free = [&](std::size_t n) {
    return static_cast<int>(pool.nodes[n].size()) - used[n] - take[n];
  };
  if (policy == DevicePolicy::scatter_first) {
    for (bool any = true; need > 0 && any;) {
      any = false;
      for (std::size_t n = 0; n < nodes && need > 0; ++n) {
        if (free(n) == 0) continue;
        ++take[n];
        --need;
        any = true;
      }
    }
  } else {
    for (const bool preferred : {true, false}) {
      for (std::size_t n = 0; n < nodes; ++n) {
        const bool fresh = used[n] == 0;
        if ((fresh == (policy == DevicePolicy::fresh_first)) != preferred) continue;
        const int taken = std::min(need, free(n));
        take[n] += taken;
        need -= taken;
      }
    }
  }
  ensure(need == 0, "enough devices are free");
  std::vector<DappleStage::Run> runs;
  for (std::size_t n = 0; n < nodes; ++n) {
    if (take[n] > 0) runs.push_back({static_cast<int>(n), used[n], take[n]});
  }
  return runs;
}

}  // namespace hetpipe
