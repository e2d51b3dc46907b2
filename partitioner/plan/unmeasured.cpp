// SPDX-License-Identifier: Apache-2.0
#include "partitioner/plan/unmeasured.h"

#include <map>
#include <set>

#include "base/json.h"
#include "base/text.h"

namespace hetpipe {
namespace {

// The samples per call of every kind that a plan uses.
std::map<const DeviceKind*, std::set<int>> batches_in(const Plan& plan, const Cluster& cluster) {
  std::map<const DeviceKind*, std::set<int>> batches;
  for (int w = 0; w < static_cast<int>(plan.virtual_workers.size()); ++w) {
    const int micro_batch = plan.minibatch_of(VirtualWorkerId{w}) / plan.micro_batches;
    for (const PlanStage& stage : plan.virtual_workers[static_cast<std::size_t>(w)].stages) {
      const std::vector<int> samples = samples_of_replicas(stage, micro_batch);
      for (std::size_t r = 0; r < stage.devices.size(); ++r) {
        batches[&cluster.kind_of(stage.devices[r])].insert(samples[r]);
      }
    }
  }
  return batches;
}

std::string listed(const std::set<int>& numbers) {
  std::vector<std::string> texts;
  for (const int number : numbers) texts.push_back(std::to_string(number));
  return join(texts, ", ");
}

// "v100: times of 2 samples per call extrapolated from 32 ... 128". Empty where all lie between
// measured ones.
std::string extrapolation(const DeviceKind& kind, const std::set<int>& batches,
                          const std::vector<const Measurement*>& measured) {
  const int least = measured.front()->batch;
  const int most = measured.back()->batch;
  std::set<int> outside;
  for (const int batch : batches) {
    if (batch > 0 && (batch < least || batch > most)) outside.insert(batch);
  }
  if (outside.empty()) return "";
  const std::string from = least == most
                               ? format("%d, the only measured batch, in proportion", least)
                               : format("the measured %d ... %d", least, most);
  return kind.name + ": times of " + listed(outside) + " samples per call extrapolated from " +
         from;
}

}  // namespace

std::string_view to_string(TimeOrigin origin) {
  return origin == TimeOrigin::estimated ? "estimated" : "extrapolated";
}

std::vector<UnmeasuredTimes> unmeasured_times(const Plan& plan, const Cluster& cluster,
                                              const Profile& profile) {
  const auto batches = batches_in(plan, cluster);
  std::vector<UnmeasuredTimes> result;
  for (const DeviceKind& kind : cluster.kinds) {
    const auto used = batches.find(&kind);
    const auto measured = measurements_for(profile, kind);
    if (used == batches.end() || measured.empty()) continue;
    if (!measured.front()->estimate.empty()) {
      const EstimateRecord& record = record_of(*measured.front(), plan.runtime);
      result.push_back(
          {kind.name, TimeOrigin::estimated,
           kind.name + ": estimated " + measured.front()->estimate + " (" + to_string(record) + ")",
           record});
      continue;
    }
    const std::string text = extrapolation(kind, used->second, measured);
    if (!text.empty()) result.push_back({kind.name, TimeOrigin::extrapolated, text});
  }
  return result;
}

Json unmeasured_json(const std::vector<UnmeasuredTimes>& times) {
  Json json = Json::array();
  for (const UnmeasuredTimes& one : times) {
    Json entry{{"device", one.kind}, {"how", to_string(one.origin)}, {"what", one.text}};
    if (one.record) {
      entry["expected_error"] = Json{{"mean", one.record->mean},
                                     {"worst", one.record->worst},
                                     {"compared", one.record->compared}};
    }
    json.push_back(std::move(entry));
  }
  return json;
}

std::string unmeasured_text(const std::vector<UnmeasuredTimes>& times) {
  if (times.empty()) return "";
  std::string text = "times that were not measured:\n";
  for (const UnmeasuredTimes& one : times) text += "  " + one.text + "\n";
  return text;
}

}  // namespace hetpipe
