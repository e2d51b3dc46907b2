// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "partitioner/planners/dapple_latency.h"

// DAPPLE's planner: stages from the front; each takes the next layers and some of the free devices,
// chosen by one of three policies, and the last stage takes the remaining layers on the remaining
// devices (arXiv 2007.01045, section 4.2). Plain arrays in, stages out.
namespace hetpipe {

// Running sums: element l is of layers 0 ... l-1 together, so that a stage is a difference.
using RunningSum = std::vector<double>;

// For one micro-batch on one device. Seconds, bytes.
struct DappleModel {
  std::vector<RunningSum> forward;   // [kind of device]
  std::vector<RunningSum> backward;  // [kind]
  RunningSum parameter_bytes;
  std::vector<double> crossing_bytes;  // [l]: that live across a cut before layer l
  int layers() const { return static_cast<int>(parameter_bytes.size()) - 1; }
};

struct DapplePool {
  std::vector<std::vector<int>> nodes;  // kinds of each node's devices
  double intra_bandwidth = 1;           // bytes/s, between two devices of a node
  double inter_bandwidth = 1;           // bytes/s, of a node's interface per direction
  double intra_latency = 0;
  double inter_latency = 0;
  int devices() const;
};

// exhaustive: every partial plan whose proven bound is below the best plan. quick: the same where
// little work does it (counted in stages priced), else a beam of the most promising partial plans
// per (layers planned, devices used), judged by an estimate; exact where nothing had to be dropped.
// glance: the most promising one of each alone.
enum class Effort { glance, quick, exhaustive };

struct DappleStage {
  int first_layer = 0;
  int end_layer = 0;
  // Per node, the devices [begin, begin + count) of it.
  struct Run {
    int node = 0;
    int begin = 0;
    int count = 0;
    bool operator==(const Run&) const = default;
  };
  std::vector<Run> devices;
  bool recompute = false;
  int replicas() const;
  bool operator==(const DappleStage&) const = default;
};

// Of all stages of a plan: sets `recompute` where one does not fit without; false where one does
// not fit at all.
using SettleMemory = std::function<bool(std::span<DappleStage> stages)>;

struct DappleRequest {
  int micro_batches = 1;
  int unit = 1;                // every stage takes a multiple of this many devices
  int most_replicas = 1;       // of a stage: samples of a micro-batch
  SettleMemory settle_memory;  // nothing: memory is of no concern
  Effort effort = Effort::quick;
  std::vector<bool> cuts{};  // [l]: whether a stage may begin at layer l; empty: at each
  double give_up_at = std::numeric_limits<double>::infinity();  // s; plans as slow do not count
};

struct DapplePlan {
  double seconds = std::numeric_limits<double>::infinity();  // L; infinite: nothing fits
  std::vector<DappleStage> stages;
  bool exact = true;  // no plan that the policies reach is better
};

enum class DevicePolicy { fresh_first, append_first, scatter_first };

// The next `need` devices when the first used[n] of node n are taken. Fresh First: nodes that
// nobody uses, then the others; Append First: nodes in use, then fresh ones; Scatter First: one of
// each node in turn. Ensures that there are enough.
std::vector<DappleStage::Run> next_devices(const DapplePool& pool, std::span<const int> used,
                                           int need, DevicePolicy policy);

// Blocks of the stages and of what lies between them, in order: stage, transfer, stage, ... A
// replicated stage's micro-batch is split in proportion to its devices' speed on its layers. An
// all-reduce among n replicas takes 2 (n-1)/n of the parameters over the slowest link among them; a
// transfer as long as the busiest interface.
std::vector<PipelineBlock> dapple_blocks(const DappleModel& model, const DapplePool& pool,
                                         std::span<const DappleStage> stages);

DapplePlan dapple_search(const DappleModel& model, const DapplePool& pool,
                         const DappleRequest& request);

}  // namespace hetpipe
