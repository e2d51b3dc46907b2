// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "partitioner/cluster/cluster.h"
#include "partitioner/plan/plan.h"

// The results of the runs of a comparison.
namespace hetpipe {

struct CurvePoint {
  double seconds = 0;   // of training
  double accuracy = 0;  // of the test samples
};

// One run, as its result.json has it (docs/training.md).
struct RunResult {
  int seed = 0;
  std::string exit;  // "finished", "target-accuracy", ...
  std::string plan_hash;
  std::int64_t samples = 0;
  double seconds = 0;
  double throughput = 0;  // samples/s
  std::optional<double> test_accuracy;
  std::optional<double> time_to_target;  // s
  int staleness_max = 0;
  // Of the device that is fullest, as a share of its memory.
  std::string fullest;
  std::int64_t peak_memory = 0;  // bytes
  double memory_share = 0;
  std::int64_t messages = 0;  // of all ranks: activations, gradients, pushes, pulls
  std::int64_t bytes = 0;
  std::vector<CurvePoint> curve;

  bool complete() const { return exit == "finished" || exit == "target-accuracy"; }
};

// The run that wrote this file; nothing if there is none, or it cannot be read. `plan` and
// `cluster` determine how much memory its devices have.
std::optional<RunResult> try_read_result(const std::filesystem::path& file, int seed,
                                         const Plan& plan, const Cluster& cluster);

// A run that ended without a result: why, from the last line of its output.
struct RunFailure {
  int seed = 0;
  int code = 0;
  std::string said;
};

struct Entry {
  std::string name;
  std::string system;
  std::string why_not;  // not planned, or cannot be trained; empty: neither
  std::vector<RunResult> runs;
  std::vector<RunFailure> failures;
  int not_run = 0;                           // the comparison was interrupted before them
  std::vector<int> minibatches = {};         // samples, of each virtual worker; none without a plan
  std::optional<double> learning_rate = {};  // likewise
};

struct Comparison {
  std::string cluster;
  std::string model;
  std::string data;
  std::int64_t dataset_size = 0;
  double epochs = 0;
  std::optional<double> target_accuracy;
  std::vector<int> seeds;
  bool simulated = false;  // the clock
  std::string command;     // as typed
  std::string version;     // of hetpipe
  std::vector<Entry> entries;
};

struct Spread {
  double mean = 0;
  double least = 0;
  double most = 0;
};
Spread spread_of(const std::vector<double>& values);  // at least one

// Over the runs of an entry, of which there must be one; per epoch, so that runs that ended early
// compare with others.
Spread throughput_of(const Entry& entry);
std::optional<Spread> time_to_target_of(const Entry& entry);  // of those that reached it
std::optional<Spread> accuracy_of(const Entry& entry);
const RunResult& fullest_of(const Entry& entry);
int staleness_of(const Entry& entry);
double messages_per_epoch(const Entry& entry, std::int64_t dataset_size);
double bytes_per_epoch(const Entry& entry, std::int64_t dataset_size);

// Evaluation by evaluation, the mean of those that all runs have reached.
std::vector<CurvePoint> mean_curve(const Entry& entry);

}  // namespace hetpipe
