// SPDX-License-Identifier: Apache-2.0
#include "launch/compare/results.h"

#include <algorithm>

#include "base/error.h"
#include "base/fields_json.h"
#include "base/file.h"

namespace hetpipe {
namespace {

// A device's memory, bytes; nothing where the plan has no such place.
std::optional<double> memory_of(const Json& rank, const Plan& plan, const Cluster& cluster) {
  const auto vw = rank.at("virtual_worker").get<std::size_t>();
  const auto stage = rank.at("stage").get<std::size_t>();
  const auto replica = rank.at("replica").get<std::size_t>();
  if (vw >= plan.virtual_workers.size() || stage >= plan.virtual_workers[vw].stages.size()) {
    return std::nullopt;
  }
  const PlanStage& place = plan.virtual_workers[vw].stages[stage];
  if (replica >= place.devices.size()) return std::nullopt;
  const DeviceKind& kind = cluster.kind_of(place.devices[replica]);
  return static_cast<double>(kind.memory) * kind.gpus;
}

void add_rank(const Json& rank, const Plan& plan, const Cluster& cluster, RunResult& run) {
  for (const char* key : {"forward", "backward", "pushes", "pulls", "summed"}) {
    run.messages += rank.at("messages").at(key).get<std::int64_t>();
  }
  for (const char* key : {"forward", "backward", "pushed", "pulled", "summed"}) {
    run.bytes += rank.at("bytes").at(key).get<std::int64_t>();
  }
  const auto peak = rank.at("peak_memory").get<std::int64_t>();
  const auto memory = memory_of(rank, plan, cluster);
  const double share = memory && *memory > 0 ? static_cast<double>(peak) / *memory : 0;
  if (!run.fullest.empty() && share <= run.memory_share) return;
  run.fullest = rank.at("device").get<std::string>();
  run.peak_memory = peak;
  run.memory_share = share;
}

RunResult result_of(const Json& json, int seed, const Plan& plan, const Cluster& cluster) {
  RunResult run;
  run.seed = seed;
  run.exit = json.at("exit").get<std::string>();
  run.plan_hash = json.at("plan_hash").get<std::string>();
  run.samples = json.at("samples").get<std::int64_t>();
  run.seconds = json.at("seconds").get<double>();
  run.throughput = json.at("throughput").get<double>();
  run.test_accuracy = from_json<std::optional<double>>(json.at("test_accuracy"));
  run.time_to_target = from_json<std::optional<double>>(json.at("time_to_target"));
  run.staleness_max = json.at("staleness").at("max").get<int>();
  for (const Json& rank : json.at("ranks").items()) add_rank(rank, plan, cluster, run);
  for (const Json& point : json.at("evaluations").items()) {
    const auto accuracy = from_json<std::optional<double>>(point.at("test_accuracy"));
    if (accuracy) run.curve.push_back({point.at("seconds").get<double>(), *accuracy});
  }
  return run;
}

template <class Value>
std::vector<double> values_of(const Entry& entry, Value value) {
  std::vector<double> values;
  for (const RunResult& run : entry.runs) {
    if (const std::optional<double> one = value(run)) values.push_back(*one);
  }
  return values;
}

template <class Value>
std::optional<Spread> try_spread(const Entry& entry, Value value) {
  const std::vector<double> values = values_of(entry, value);
  return values.empty() ? std::nullopt : std::optional(spread_of(values));
}

double per_epoch(std::int64_t count, const RunResult& run, std::int64_t dataset_size) {
  return static_cast<double>(count) * static_cast<double>(dataset_size) /
         static_cast<double>(std::max<std::int64_t>(run.samples, 1));
}

}  // namespace

std::optional<RunResult> try_read_result(const std::filesystem::path& file, int seed,
                                         const Plan& plan, const Cluster& cluster) {
  if (!std::filesystem::exists(file)) return std::nullopt;
  try {
    return result_of(Json::parse(read_file(file)), seed, plan, cluster);
  } catch (const JsonError&) {
    return std::nullopt;  // cut short, or another program's
  }
}

Spread spread_of(const std::vector<double>& values) {
  ensure(!values.empty(), "a spread needs values");
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  double sum = 0;
  for (const double value : values) sum += value;
  return {sum / static_cast<double>(values.size()), *least, *most};
}

Spread throughput_of(const Entry& entry) {
  return spread_of(
      values_of(entry, [](const RunResult& run) { return std::optional(run.throughput); }));
}

std::optional<Spread> time_to_target_of(const Entry& entry) {
  return try_spread(entry, [](const RunResult& run) { return run.time_to_target; });
}

std::optional<Spread> accuracy_of(const Entry& entry) {
  return try_spread(entry, [](const RunResult& run) { return run.test_accuracy; });
}

const RunResult& fullest_of(const Entry& entry) {
  return *std::max_element(
      entry.runs.begin(), entry.runs.end(),
      [](const RunResult& a, const RunResult& b) { return a.memory_share < b.memory_share; });
}

int staleness_of(const Entry& entry) {
  int most = 0;
  for (const RunResult& run : entry.runs) most = std::max(most, run.staleness_max);
  return most;
}

double messages_per_epoch(const Entry& entry, std::int64_t dataset_size) {
  return spread_of(values_of(entry,
                             [&](const RunResult& run) {
                               return std::optional(per_epoch(run.messages, run, dataset_size));
                             }))
      .mean;
}

double bytes_per_epoch(const Entry& entry, std::int64_t dataset_size) {
  return spread_of(values_of(entry,
                             [&](const RunResult& run) {
                               return std::optional(per_epoch(run.bytes, run, dataset_size));
                             }))
      .mean;
}

std::vector<CurvePoint> mean_curve(const Entry& entry) {
  std::size_t points = entry.runs.empty() ? 0 : entry.runs.front().curve.size();
  for (const RunResult& run : entry.runs) points = std::min(points, run.curve.size());
  std::vector<CurvePoint> mean(points);
  for (const RunResult& run : entry.runs) {
    for (std::size_t i = 0; i < points; ++i) {
      mean[i].seconds += run.curve[i].seconds / static_cast<double>(entry.runs.size());
      mean[i].accuracy += run.curve[i].accuracy / static_cast<double>(entry.runs.size());
    }
  }
  return mean;
}

}  // namespace hetpipe
