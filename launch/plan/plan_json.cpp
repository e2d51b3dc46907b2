// SPDX-License-Identifier: Apache-2.0
#include "launch/plan/plan_json.h"

#include "base/error.h"
#include "base/json.h"
#include "partitioner/plan/staleness.h"
#include "partitioner/plan/system.h"
#include "partitioner/toml_file.h"

namespace hetpipe {
namespace {

Json json_of(const TomlValue& value) {
  switch (value.kind) {
    case TomlValue::Kind::string:
      return value.text;
    case TomlValue::Kind::integer:
      return value.integer;
    case TomlValue::Kind::real:
      return value.real;
    case TomlValue::Kind::boolean:
      return value.boolean;
    case TomlValue::Kind::array: {
      Json array = Json::array();
      for (const TomlValue& item : value.items) array.push_back(json_of(item));
      return array;
    }
    case TomlValue::Kind::table: {
      Json object = Json::object();
      for (const auto& [key, entry] : value.entries) object[key] = json_of(entry);
      return object;
    }
    case TomlValue::Kind::other:
      break;
  }
  ensure(false, "a plan file holds neither dates nor times");
  return {};
}

Json json_of(const Answer& answer) {
  Json json{{"change", answer.change}, {"devices", answer.devices}};
  if (!answer.plan) {
    json["why_not"] = answer.why_not;
    return json;
  }
  json["throughput"] = answer.throughput;
  json["worth"] = answer.worth;
  json["relative"] = answer.relative;
  json["relative_throughput"] = answer.relative_throughput;
  json["minibatch"] = answer.plan->minibatch;
  json["idle"] = answer.idle;
  json["virtual_workers"] = answer.plan->virtual_workers.size();
  json["in_flight"] = answer.plan->in_flight;
  json["micro_batches"] = answer.plan->micro_batches;
  if (answer.plan->server) json["clock_distance"] = answer.plan->server->clock_distance;
  if (answer.plan->server && traits(composition(*answer.plan).sync).rounds) {
    json["round"] = answer.plan->server->round;
  }
  json["bottleneck"] = answer.bottleneck;
  json["fullest_device"] = answer.fullest;
  json["unmeasured"] = unmeasured_json(answer.unmeasured);
  return json;
}

Json json_of(const Alternative& alternative) {
  Json json{{"what", alternative.what}};
  if (alternative.relative) {
    json["relative"] = *alternative.relative;
    json["throughput"] = alternative.throughput;
    json["relative_throughput"] = alternative.relative_throughput;
  } else {
    json["why_not"] = alternative.why_not;
  }
  return json;
}

Json json_of(const std::vector<Alternative>& alternatives) {
  Json json = Json::array();
  for (const Alternative& alternative : alternatives) json.push_back(json_of(alternative));
  return json;
}

Json json_of(const DepthLimit& depth) {
  Json json{{"what", depth.what},
            {"now", depth.now},
            {"tried", depth.tried},
            {"limited_by", depth.limited_by}};
  if (depth.relative) {
    json["relative"] = *depth.relative;
    json["relative_throughput"] = depth.relative_throughput;
    json["samples"] = depth.samples;
  }
  if (!depth.why_not.empty()) json["why_not"] = depth.why_not;
  if (depth.limited_by == "memory") {
    json["virtual_worker"] = depth.virtual_worker;
    json["stage"] = depth.stage;
    json["device"] = to_string(depth.device);
    json["missing_bytes"] = depth.missing_bytes;
  }
  return json;
}

Json json_of(const Remedies& remedies) {
  return {{"compute", remedies.compute},
          {"bandwidth", remedies.bandwidth},
          {"latency", remedies.latency},
          {"depth", remedies.depth}};
}

Json json_of(const Explanation& explanation) {
  const Bottleneck& b = explanation.bottleneck;
  return {{"objective", explanation.objective},
          {"bottleneck",
           {{"virtual_worker", b.virtual_worker},
            {"stage", b.stage},
            {"device", to_string(b.device)},
            {"compute", b.compute_seconds},
            {"receive", b.receive_seconds},
            {"busy", b.busy},
            {"communication", b.communication},
            {"bubble", b.bubble},
            {"limited_by", b.limited_by},
            {"second", b.second}}},
          {"remedies", json_of(explanation.remedies)},
          {"moves", json_of(explanation.moves)},
          {"depth", json_of(explanation.depth)},
          {"leave_out", json_of(explanation.leave_out)},
          {"faster_devices", json_of(explanation.devices)},
          {"faster_links", json_of(explanation.links)},
          {"idle", explanation.idle},
          {"sentences", explanation.sentences}};
}

Json json_of(const SearchResult& search) {
  Json json{{"bound", search.bound},
            {"exact", search.exact},
            {"simulations", search.simulations},
            {"left_out", Json::array()},
            {"considered", Json::array()}};
  for (const LeftOut& left : search.left_out) {
    Json device{{"device", to_string(left.device)}};
    if (left.change) device["relative_with_it"] = *left.change;
    json["left_out"].push_back(std::move(device));
  }
  for (const SearchCandidate& candidate : search.considered) {
    Json entry{{"origin", candidate.origin}, {"what", candidate.what}};
    if (candidate.throughput > 0) {
      entry["throughput"] = candidate.throughput;
      entry["worth"] = candidate.worth;
      entry["minibatch"] = candidate.minibatch;
    } else {
      entry["why_not"] = candidate.why_not;
    }
    json["considered"].push_back(std::move(entry));
  }
  return json;
}

Json ledger_json(const Plan& plan, const std::vector<StageNeed>& needs) {
  Json json = Json::array();
  std::size_t next = 0;
  for (std::size_t vw = 0; vw < plan.virtual_workers.size(); ++vw) {
    for (std::size_t k = 0; k < plan.virtual_workers[vw].stages.size(); ++k) {
      const StageNeed& need = needs[next++];
      Json lines = Json::object();
      for (const LedgerLine& line : need.ledger.lines) lines[line.name] = line.bytes;
      json.push_back({{"virtual_worker", vw},
                      {"stage", k},
                      {"replica", need.replica},
                      {"device", to_string(need.device)},
                      {"lines", std::move(lines)},
                      {"total", need.ledger.total()},
                      {"memory", need.memory}});
    }
  }
  return json;
}

Json json_of(const PlanStaleness& staleness) {
  Json json{{"stages", staleness.stages}};
  if (staleness.update_sequences > 0) {
    json["update_sequences"] = staleness.update_sequences;
  } else {
    json["forward"] = staleness.forward;
    json["backward"] = staleness.backward;
  }
  return json;
}

// By way of the file form, so that the two cannot come to differ.
Json json_of(const Plan& plan) { return json_of(parse_toml(to_toml(plan), "plan")); }

}  // namespace

std::string plan_json(const Plan& plan, const PlanNotes& notes) {
  Json json = json_of(plan);
  json["unmeasured"] = unmeasured_json(notes.unmeasured);
  for (const PlanStaleness& staleness : plan_staleness(plan)) {
    json["version_differences"].push_back(json_of(staleness));
  }
  if (!notes.answers.empty()) {
    json["what_if"] = Json::array();
    for (const Answer& answer : notes.answers) json["what_if"].push_back(json_of(answer));
  }
  if (notes.explanation) json["explain"] = json_of(*notes.explanation);
  if (notes.search) json["search"] = json_of(*notes.search);
  if (notes.epochs) json["epochs"] = epochs_json(*notes.epochs);
  if (notes.largest) json["largest_minibatch"] = largest_json(*notes.largest);
  if (notes.global_batch > 0) {
    json["global_batch"] = batched_json(notes.batched, notes.global_batch);
  }
  if (notes.feed) json["feed"] = feed_json(*notes.feed);
  if (!notes.ledger.empty()) json["ledger"] = ledger_json(plan, notes.ledger);
  return json.dump(2) + '\n';
}

}  // namespace hetpipe
