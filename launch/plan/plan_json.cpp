// SPDX-License-Identifier: Apache-2.0
#include "launch/plan/plan_json.h"

#include <nlohmann/json.hpp>

#include "partitioner/plan/staleness.h"
#include "partitioner/toml_file.h"

namespace hetpipe {
namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson json_of(const TomlValue& value) {
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
      OrderedJson array = OrderedJson::array();
      for (const TomlValue& item : value.items) array.push_back(json_of(item));
      return array;
    }
    case TomlValue::Kind::table: {
      OrderedJson object = OrderedJson::object();
      for (const auto& [key, entry] : value.entries) object[key] = json_of(entry);
      return object;
    }
    case TomlValue::Kind::other:
      break;
  }
  ensure(false, "a plan file holds neither dates nor times");
  return {};
}

OrderedJson json_of(const Answer& answer) {
  OrderedJson json{{"change", answer.change}, {"devices", answer.devices}};
  if (!answer.plan) {
    json["why_not"] = answer.why_not;
    return json;
  }
  json["throughput"] = answer.throughput;
  json["relative"] = answer.relative;
  json["idle"] = answer.idle;
  json["virtual_workers"] = answer.plan->virtual_workers.size();
  json["in_flight"] = answer.plan->in_flight;
  json["micro_batches"] = answer.plan->micro_batches;
  if (answer.plan->server) json["clock_distance"] = answer.plan->server->clock_distance;
  json["bottleneck"] = answer.bottleneck;
  json["fullest_device"] = answer.fullest;
  json["unmeasured"] = unmeasured_json(answer.unmeasured);
  return json;
}

OrderedJson json_of(const Alternative& alternative) {
  OrderedJson json{{"what", alternative.what}};
  if (alternative.relative) {
    json["relative"] = *alternative.relative;
  } else {
    json["why_not"] = alternative.why_not;
  }
  return json;
}

OrderedJson json_of(const std::vector<Alternative>& alternatives) {
  OrderedJson json = OrderedJson::array();
  for (const Alternative& alternative : alternatives) json.push_back(json_of(alternative));
  return json;
}

OrderedJson json_of(const DepthLimit& depth) {
  OrderedJson json{{"what", depth.what},
                   {"now", depth.now},
                   {"tried", depth.tried},
                   {"limited_by", depth.limited_by}};
  if (depth.relative) json["relative"] = *depth.relative;
  if (!depth.why_not.empty()) json["why_not"] = depth.why_not;
  if (depth.limited_by == "memory") {
    json["virtual_worker"] = depth.virtual_worker;
    json["stage"] = depth.stage;
    json["device"] = to_string(depth.device);
    json["missing_bytes"] = depth.missing_bytes;
  }
  return json;
}

OrderedJson json_of(const Explanation& explanation) {
  const Bottleneck& b = explanation.bottleneck;
  return {{"bottleneck",
           {{"virtual_worker", b.virtual_worker},
            {"stage", b.stage},
            {"device", to_string(b.device)},
            {"compute", b.compute_seconds},
            {"receive", b.receive_seconds},
            {"busy", b.busy},
            {"communication", b.communication},
            {"bubble", b.bubble},
            {"limited_by", b.limited_by}}},
          {"moves", json_of(explanation.moves)},
          {"depth", json_of(explanation.depth)},
          {"leave_out", json_of(explanation.leave_out)},
          {"faster_links", json_of(explanation.links)},
          {"idle", explanation.idle},
          {"sentences", explanation.sentences}};
}

OrderedJson json_of(const SearchResult& search) {
  OrderedJson json{{"bound", search.bound},
                   {"exact", search.exact},
                   {"simulations", search.simulations},
                   {"left_out", OrderedJson::array()},
                   {"considered", OrderedJson::array()}};
  for (const LeftOut& left : search.left_out) {
    OrderedJson device{{"device", to_string(left.device)}};
    if (left.change) device["relative_with_it"] = *left.change;
    json["left_out"].push_back(std::move(device));
  }
  for (const SearchCandidate& candidate : search.considered) {
    OrderedJson entry{{"origin", candidate.origin}, {"what", candidate.what}};
    if (candidate.throughput > 0) {
      entry["throughput"] = candidate.throughput;
    } else {
      entry["why_not"] = candidate.why_not;
    }
    json["considered"].push_back(std::move(entry));
  }
  return json;
}

OrderedJson ledger_json(const Plan& plan, const std::vector<StageNeed>& needs) {
  OrderedJson json = OrderedJson::array();
  std::size_t next = 0;
  for (std::size_t vw = 0; vw < plan.virtual_workers.size(); ++vw) {
    for (std::size_t k = 0; k < plan.virtual_workers[vw].stages.size(); ++k) {
      const StageNeed& need = needs[next++];
      OrderedJson lines = OrderedJson::object();
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

OrderedJson json_of(const PlanStaleness& staleness) {
  OrderedJson json{{"stages", staleness.stages}};
  if (staleness.update_sequences > 0) {
    json["update_sequences"] = staleness.update_sequences;
  } else {
    json["forward"] = staleness.forward;
    json["backward"] = staleness.backward;
  }
  return json;
}

// By way of the file form, so that the two cannot come to differ.
OrderedJson plan_json(const Plan& plan) { return json_of(parse_toml(to_toml(plan), "plan")); }

}  // namespace

nlohmann::ordered_json unmeasured_json(const std::vector<UnmeasuredTimes>& times) {
  OrderedJson json = OrderedJson::array();
  for (const UnmeasuredTimes& one : times) {
    json.push_back({{"device", one.kind}, {"how", to_string(one.origin)}, {"what", one.text}});
  }
  return json;
}

std::string to_json(const Plan& plan, const PlanNotes& notes) {
  OrderedJson json = plan_json(plan);
  json["unmeasured"] = unmeasured_json(notes.unmeasured);
  for (const PlanStaleness& staleness : plan_staleness(plan)) {
    json["version_differences"].push_back(json_of(staleness));
  }
  if (!notes.answers.empty()) {
    json["what_if"] = OrderedJson::array();
    for (const Answer& answer : notes.answers) json["what_if"].push_back(json_of(answer));
  }
  if (notes.explanation) json["explain"] = json_of(*notes.explanation);
  if (notes.search) json["search"] = json_of(*notes.search);
  if (!notes.ledger.empty()) json["ledger"] = ledger_json(plan, notes.ledger);
  return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + '\n';
}

}  // namespace hetpipe
