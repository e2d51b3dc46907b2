// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/precision.h"
#include "partitioner/cluster/cluster.h"
#include "partitioner/profile/profile.h"

// A plan, decided before the run: virtual workers, their stages, parameter servers. Planner
// and runtime meet in this value's file form (docs/files.md); one written by hand runs as well.
namespace hetpipe {

class Json;

// What the planner predicted for one stage.
struct StagePrediction {
  double forward_seconds = 0;  // compute, per micro-batch
  double backward_seconds = 0;
  double receive_seconds = 0;  // activations in forward plus gradients in backward, per micro-batch
  std::int64_t memory = 0;     // bytes, all ledger lines
  bool operator==(const StagePrediction&) const = default;
};

struct PlanStage {
  int first_layer = 0;
  int end_layer = 0;                // one past the last
  std::vector<DeviceName> devices;  // several: replicas
  std::vector<int> shares;          // samples per replica; empty: equal
  bool recompute = false;
  std::optional<StagePrediction> predicted;
  bool operator==(const PlanStage&) const = default;
};

// Samples per replica: the stage's shares, or equal ones, of which the first take what is left.
std::vector<int> samples_of_replicas(const PlanStage& stage, int micro_batch);

struct PlanVirtualWorker {
  std::optional<int> minibatch;  // overrides Plan::minibatch
  std::vector<PlanStage> stages;
  bool operator==(const PlanVirtualWorker&) const = default;
};

// How servers add the updates of N virtual workers: their sum, their mean, or their sum over the
// root of N.
std::vector<std::string> server_scales();

constexpr int kMostRound = 1000;  // waves
// The servers' step after each round (Douillard et al., arXiv 2311.08105).
inline constexpr double kOuterRate = 0.7;
inline constexpr double kOuterMomentum = 0.9;

struct PlanServer {
  std::vector<std::string> nodes;       // one shard each
  bool hosted = false;                  // inside that node's first worker rank
  int clock_distance = 0;               // D
  std::string placement = "default";    // or "local"
  std::optional<std::string> pull;      // "bound" or "newest"; absent: usual_pull(D)
  std::string scale = "sum";            // of server_scales()
  std::string push_precision = "fp32";  // or "bf16": what a push's numbers are rounded to
  int round = 1;                        // waves between pushes; more than 1 with sync = "outer"
  double outer_rate = kOuterRate;       // of the servers' step after a round (docs/outer.md)
  double outer_momentum = kOuterMomentum;
  bool operator==(const PlanServer&) const = default;

  // Whether a gate grants what the servers have by then, rather than exactly the label D waves back
  // (docs/wsp.md). With D = 0 they are the same.
  bool pulls_newest() const {
    return clock_distance > 0 && pull.value_or(usual_pull(clock_distance)) == "newest";
  }
  // Whether a push takes half the bytes of the parameters.
  bool halves_pushes() const { return push_precision == "bf16"; }
  // The paper's for D > 0.
  static const char* usual_pull(int clock_distance) {
    return clock_distance > 0 ? "newest" : "bound";
  }
};

struct Prediction {
  double throughput = 0;  // samples/s
  double bottleneck = 0;  // s: the planner's own objective, docs/planners.md
  std::string cluster_hash;
  std::string profile_hash;
  double samples_factor = 1;  // samples until an accuracy, by the least possible (lateness.h)
  // Waves that labels lack beyond those of D = 0, on average; absent: unknown, or of no importance.
  std::optional<double> label_age;
  bool operator==(const Prediction&) const = default;
};

struct Plan {
  std::string system = "hetpipe";
  std::string model;
  int minibatch = 32;
  int micro_batches = 1;
  int in_flight = 1;  // Nm
  std::string optimizer = "sgd-momentum";
  double ema = 0;               // decay of the moving average of the weights; 0: none is kept
  PrecisionChoice precision{};  // of GPUs: what its times hold for
  std::string runtime;          // only for simulate: whose executor is imitated; empty: this one
  std::string schedule;         // what differs from the system's row (system.h); empty: the row's
  std::string weights;
  std::string sync;
  std::vector<PlanVirtualWorker> virtual_workers;
  std::optional<PlanServer> server;
  std::optional<Prediction> predicted;

  int minibatch_of(VirtualWorkerId vw) const;
  std::int64_t global_batch() const;  // samples of one minibatch of every virtual worker
  // Minibatches of a virtual worker that are pushed at once.
  Minibatch wave_length() const { return Minibatch{in_flight} * (server ? server->round : 1); }
  int worker_ranks() const;  // one per device
  int server_ranks() const;  // 0 when hosted or without servers
  bool operator==(const Plan&) const = default;
};

// `names`: a profile of the model, where stages may give their layers by name.
Plan parse_plan(std::string_view text, const std::string& file, const Profile* names = nullptr);
Plan load_plan(const std::filesystem::path& path, const Profile* names = nullptr);
// The same for a cluster and a profile, which it must match: its model, its layers, devices that
// exist. Every problem with its line in the file.
Plan load_plan(const std::filesystem::path& path, const Cluster& cluster, const Profile& profile);
Plan parse_plan(std::string_view text, const std::string& file, const Cluster& cluster,
                const Profile& profile);
// With the names of each stage's layers in a comment, where a profile is given.
std::string to_toml(const Plan& plan, const Profile* names = nullptr);
// By way of that text.
Json to_json(const Plan& plan);
void from_json(const Json& json, Plan& plan);

// Checks a plan by itself and, where given, against cluster and layer count: every layer once and
// in order in every virtual worker, devices that exist, no device twice, sensible numbers. All
// problems at once.
void check_plan(const Plan& plan, const std::string& file, const Cluster* cluster, int layer_count);

}  // namespace hetpipe
