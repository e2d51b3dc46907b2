// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "benchmarks/gpt_profile.h"
#include "partitioner/cluster/catalogue.h"
#include "partitioner/cluster/cluster.h"
#include "partitioner/plan/plan.h"
#include "partitioner/profile/estimate.h"
#include "partitioner/simulator/simulate.h"

// Training iterations of GPTs measured on A100s (vTrain, arXiv 2312.12391), as cluster, profile and
// plan: everything that estimates know of such a run comes from its configuration. Shared by the
// table and the test.
namespace hetpipe::bench {

// Of a node of eight A100-SXM: NVLink 3 has twelve links of 25 GB/s per direction to each GPU; four
// network interfaces of 200 Gb/s (from the paper). Latencies are usual ones of NCCL.
inline constexpr int kGpusOfNode = 8;
inline constexpr Link kNvlink3{300e9, 5e-6};
inline constexpr Link kFourInterfaces{100e9, 10e-6};
inline constexpr int kGptVocabulary = 50304;

struct CalibrationRun {
  std::string where;  // "one node", "several nodes"
  int gpus = 0;
  int global_batch = 0;
  int micro_batch = 0;
  int hidden = 0;
  int heads = 0;
  int layers = 0;
  int sequence = 0;
  int tensor = 0;  // degrees of parallelism
  int data = 0;
  int pipeline = 0;
  double iteration_seconds = 0;  // measured

  Cluster cluster = {};
  Profile profile = {};  // of flops and bytes
  Plan plan = {};

  std::string name() const {
    return format("%d x %d, %d GPUs (T%d D%d P%d), %d samples in %ds", layers, hidden, gpus, tensor,
                  data, pipeline, global_batch, micro_batch);
  }
};

// What is fitted; absent: the catalogue's and the runtime's own.
struct EstimateConstants {
  std::optional<double> launch_latency = {};
  std::optional<double> tensor_efficiency = {};
  std::optional<double> memory_efficiency = {};
};

// A device is a tensor-parallel group; ranks count tensor, then data, then pipeline, as
// Megatron-DeepSpeed numbers them.
inline Cluster calibration_cluster(const CalibrationRun& run) {
  Cluster cluster;
  DeviceKind kind = *try_catalogue_kind("a100-sxm-80gb");
  kind.name = "a100-x" + std::to_string(run.tensor);
  kind.catalogue = "a100-sxm-80gb";
  kind.gpus = run.tensor;
  cluster.kinds = {kind};
  const int devices = run.gpus / run.tensor;
  const int of_node = kGpusOfNode / run.tensor;
  for (int first = 0; first < devices; first += of_node) {
    const auto here = static_cast<std::size_t>(std::min(of_node, devices - first));
    cluster.nodes.push_back({"n" + std::to_string(first / of_node), std::vector<int>(here, 0)});
  }
  cluster.intra_node = kNvlink3;
  cluster.inter_node = kFourInterfaces;
  return cluster;
}

inline Plan calibration_plan(const CalibrationRun& run, const Profile& profile) {
  Plan plan;
  plan.system = "pipedream-flush";
  plan.runtime = "megatron-deepspeed";
  plan.model = profile.model;
  plan.precision = Precision::fp16;
  plan.minibatch = run.global_batch / run.data;
  plan.micro_batches = plan.minibatch / run.micro_batch;
  const int of_node = kGpusOfNode / run.tensor;
  for (int d = 0; d < run.data; ++d) {
    PlanVirtualWorker worker;
    for (int p = 0; p < run.pipeline; ++p) {
      const int device = p * run.data + d;
      PlanStage stage;
      stage.first_layer = p == 0 ? 0 : worker.stages.back().end_layer;
      stage.end_layer = kGptFirst + (p + 1) * (run.layers / run.pipeline) * kGptOperations;
      if (p + 1 == run.pipeline) stage.end_layer += kGptLast;
      stage.devices = {{"n" + std::to_string(device / of_node), device % of_node}};
      stage.recompute = true;
      worker.stages.push_back(stage);
    }
    plan.virtual_workers.push_back(worker);
  }
  return plan;
}

// calibration.csv: one row per run, with the columns of CalibrationRun, iteration time in ms.
inline std::vector<CalibrationRun> load_calibration_runs(const std::filesystem::path& table) {
  std::ifstream file(table);
  if (!file) throw UserError(table.string(), "cannot be read (no such file). Name the table.");
  std::vector<CalibrationRun> runs;
  std::string line;
  std::getline(file, line);  // names of the columns
  while (std::getline(file, line)) {
    const std::vector<std::string> cells = split(line, ',');
    if (cells.size() != 12) {
      throw UserError(table.string(), "'" + line + "' (not 12 cells). Correct the row.");
    }
    const auto number = [&](std::size_t cell) { return std::stoi(cells[cell]); };
    CalibrationRun run{cells[0],  number(1), number(2), number(3), number(4),  number(5),
                       number(6), number(7), number(8), number(9), number(10), 0};
    run.iteration_seconds = std::stod(cells[11]) / 1000;
    run.cluster = calibration_cluster(run);
    run.profile =
        gpt_profile({run.layers, run.hidden, run.heads, run.sequence, kGptVocabulary, run.tensor});
    run.plan = calibration_plan(run, run.profile);
    runs.push_back(std::move(run));
  }
  return runs;
}

// The simulated iteration over the measured one, less 1.
inline double calibration_error(const CalibrationRun& run, const EstimateConstants& constants = {},
                                const std::optional<Link>& nvlink = {}) {
  Cluster cluster = run.cluster;
  if (nvlink) cluster.intra_node = *nvlink;
  DeviceKind& kind = cluster.kinds.front();
  if (constants.launch_latency) kind.launch_latency = constants.launch_latency;
  kind.tensor_efficiency = constants.tensor_efficiency.value_or(kind.tensor_efficiency);
  kind.memory_efficiency = constants.memory_efficiency.value_or(kind.memory_efficiency);
  const Profile profile =
      with_estimates(run.profile, cluster, run.plan.precision, {}, run.plan.runtime);
  SimulationRequest request;
  request.ledgers = false;
  return simulate(run.plan, cluster, profile, request).iteration_seconds / run.iteration_seconds -
         1;
}

}  // namespace hetpipe::bench
