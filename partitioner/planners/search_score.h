// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "partitioner/cluster/cluster.h"
#include "partitioner/cost/model_tables.h"
#include "partitioner/plan/plan.h"
#include "partitioner/profile/profile.h"
#include "partitioner/simulator/simulation_memory.h"
#include "partitioner/simulator/stage_times.h"

// The score of a plan in the search: whether it fits and its simulated speed. Looked up
// once for plans, and for virtual workers, that are alike; the work is counted.
namespace hetpipe {

// What the searches of one request have simulated, whatever the pool that they leave, and the
// system whose plan has the same times. The cluster is the whole pool, whose kinds and nodes they
// all know.
class SimulatedPlans {
 public:
  struct Known {
    double throughput = 0;         // samples/s
    double iteration_seconds = 0;  // per minibatch of every virtual worker
    std::int64_t actions = 0;
  };
  // `tables`: of the profile; null: its own.
  explicit SimulatedPlans(std::shared_ptr<ModelTables> tables = nullptr)
      : tables_(tables ? std::move(tables) : std::make_shared<ModelTables>()) {}
  const std::shared_ptr<ModelTables>& tables() { return tables_; }
  SimulationMemory& memory() { return memory_; }
  const Known* find(const std::string& key) const;
  void add(std::string key, const Known& known) { known_.emplace(std::move(key), known); }

 private:
  std::shared_ptr<ModelTables> tables_;
  SimulationMemory memory_;
  std::unordered_map<std::string, Known> known_;
};

// In rounds of many waves a worker mostly works without exchanging anything, and it takes as many
// simulated actions to see more. What no flush ends cannot do without its servers.
bool exchanges_seldom(const Plan& plan);

class PlanScores {
 public:
  // What `simulated` knows counts as if it were simulated once more, so that no search hangs on
  // those before it.
  PlanScores(const Cluster& cluster, const Profile& profile,
             std::shared_ptr<SimulatedPlans> simulated = nullptr);

  // So many more actions, from here on, until spent() holds.
  void allow(std::int64_t actions) { most_actions_ = actions_ + actions; }

  // Every stage fits its device's memory.
  bool fits(const Plan& plan);
  // samples/s of the whole plan; nothing where it does not fit or cannot be simulated (why_not()),
  // or takes much longer than usual: where whole pools of hundreds of devices push through the same
  // links. `however_long`: then as well.
  enum class Patience { usual, however_long };
  std::optional<double> throughput(const Plan& plan, Patience patience = Patience::usual);
  // Nearly the same, sooner: where pipelines are flushed and all virtual workers wait for each
  // other then, of few minibatches, whether their pace has settled or not.
  std::optional<double> about(const Plan& plan);
  // Seconds per minibatch of the slowest virtual worker by itself, of few minibatches as above;
  // nothing where the plan does not fit.
  std::optional<double> slowest_alone(const Plan& plan);
  // What simulate() said of this plan, which need not be asked again.
  void note(const Plan& plan, double throughput);
  // Seconds per minibatch of one virtual worker by itself, without waiting for others, and of
  // flushed pipelines between the exchanges of rounds; as above.
  std::optional<double> alone(const Plan& plan, std::size_t vw);

  // What the busiest device of a virtual worker computes in a minibatch: no simulation says less.
  double least_seconds(const Plan& plan, std::size_t vw);

  // Actions that simulating this plan took; 0 where it was not.
  std::int64_t actions_of(const Plan& plan) const;

  bool spent() const { return actions_ >= most_actions_; }
  std::int64_t simulations() const { return simulations_; }
  std::int64_t actions() const { return actions_; }
  const std::string& why_not() const { return why_not_; }  // of the last nothing

 private:
  static std::string key(const Plan& plan);
  std::optional<double> soon_alone(const Plan& plan, std::size_t vw);
  bool fits(const Plan& plan, std::size_t vw);
  std::string key(const Plan& plan, std::size_t vw) const;
  std::string timing_key(const Plan& plan) const;
  // `minibatches` of each virtual worker; none: until their pace is steady.
  SimulatedPlans::Known simulated(const Plan& plan, Patience patience,
                                  std::optional<int> minibatches = std::nullopt);

  CostTable& costs_of(const Plan& plan);

  const Cluster& cluster_;
  const Profile& profile_;
  std::map<Updates, CostTable> costs_;
  std::shared_ptr<SimulatedPlans> simulated_;
  std::int64_t most_actions_ = 0;
  std::int64_t actions_ = 0;
  std::int64_t simulations_ = 0;
  std::string why_not_;
  struct Simulated {
    std::optional<double> throughput{};
    std::int64_t actions = 0;
  };
  std::unordered_map<std::string, Simulated> throughput_;
  std::unordered_map<std::string, std::optional<double>> alone_;
  std::unordered_map<std::string, std::optional<double>> soon_alone_;
  std::unordered_map<std::string, bool> fits_;
};

}  // namespace hetpipe
