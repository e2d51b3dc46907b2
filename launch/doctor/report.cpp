// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/index.h"
#include "base/json.h"
#include "base/text.h"
#include "launch/doctor/examine.h"

namespace hetpipe {
namespace {

std::string device_text(const Diagnosis& diagnosis, std::size_t rank) {
  if (!diagnosis.devices.empty() && diagnosis.roles) return diagnosis.devices[rank].device.text;
  std::vector<std::string> names;
  for (const SeenCard& card : diagnosis.facts[rank].machine.cards) names.push_back(card.gpu.name);
  return names.empty() ? "no GPU" : join(names, ", ");
}

// By rank ("-": not known); empty if it is known of none.
std::vector<std::string> cores_near_cards(const Diagnosis& diagnosis) {
  const std::vector<FoundDevice> none;
  std::vector<std::string> near;
  bool any = false;
  for (std::size_t r = 0; r < diagnosis.facts.size(); ++r) {
    const SeenCard* card =
        card_of_rank(diagnosis.facts, diagnosis.roles ? diagnosis.devices : none, r);
    const bool known = card != nullptr && !card->near_cores.empty();
    near.push_back(known ? listed_cores(card->near_cores) : "-");
    any = any || known;
  }
  return any ? near : std::vector<std::string>{};
}

std::string state_of(const Check& check) {
  if (check.findings.empty()) return "ok";
  const auto worst =
      std::max_element(check.findings.begin(), check.findings.end(),
                       [](const Finding& a, const Finding& b) { return a.severity < b.severity; });
  return to_string(worst->severity);
}

std::vector<Finding> worst_first(const std::vector<Check>& checks) {
  std::vector<Finding> all;
  for (const Check& check : checks) {
    all.insert(all.end(), check.findings.begin(), check.findings.end());
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Finding& a, const Finding& b) { return a.severity > b.severity; });
  return all;
}

}  // namespace

std::string diagnosis_text(const Diagnosis& diagnosis) {
  std::vector<std::string> header{"rank", "host", "pid", "cores", "device"};
  const std::vector<std::string> near = cores_near_cards(diagnosis);
  if (!near.empty()) header.emplace_back("cores near it");
  if (diagnosis.roles) header.emplace_back("role");
  Table ranks(header);
  for (std::size_t r = 0; r < diagnosis.facts.size(); ++r) {
    const RankFacts& rank = diagnosis.facts[r].machine.rank;
    std::vector<std::string> row{std::to_string(r), rank.host, std::to_string(rank.pid),
                                 listed_cores(rank.cores), device_text(diagnosis, r)};
    if (!near.empty()) row.push_back(near[r]);
    if (diagnosis.roles) row.push_back(to_string(diagnosis.roles->of_rank[r]));
    ranks.add(std::move(row));
  }
  Table checks({"check", "state", "seen"});
  for (const Check& check : diagnosis.checks) {
    checks.add({check.name, state_of(check), check.seen});
  }
  std::string text = ranks.text() + "\n" + checks.text() + "\n";
  for (const Finding& finding : worst_first(diagnosis.checks)) {
    text += format("%s: %s\n", to_string(finding.severity), sentence(finding).c_str());
  }
  const ExitCode code = exit_code_of(diagnosis.checks);
  return text + (code == ExitCode::done ? "No problem was found.\n"
                                        : "Fix these before starting the run.\n");
}

std::string diagnosis_json(const Diagnosis& diagnosis) {
  const ExitCode code = exit_code_of(diagnosis.checks);
  Json json{{"exit_code", static_cast<int>(code)}};
  const std::vector<std::string> near = cores_near_cards(diagnosis);
  json["ranks"] = Json::array();
  for (std::size_t r = 0; r < diagnosis.facts.size(); ++r) {
    const DoctorFacts& facts = diagnosis.facts[r];
    Json rank{{"rank", r},
              {"host", facts.machine.rank.host},
              {"pid", facts.machine.rank.pid},
              {"cores", facts.machine.rank.cores},
              {"launcher", facts.launcher},
              {"device", device_text(diagnosis, r)},
              {"clock_offset", diagnosis.clocks[r]},
              {"versions", facts.versions}};
    if (!near.empty()) rank["cores_near_device"] = near[r];
    if (diagnosis.roles) rank["role"] = to_string(diagnosis.roles->of_rank[r]);
    if (!diagnosis.data.empty() && diagnosis.data[r].reads) {
      const DataSeen& data = diagnosis.data[r];
      rank["data"] = {{"samples_per_second", data.rate.samples_per_second},
                      {"threads", data.rate.threads},
                      {"memory", data.memory}};
    }
    json["ranks"].push_back(std::move(rank));
  }
  json["links"] = Json::array();
  for (const PairLink& link : diagnosis.links) {
    Json one{{"from", link.pair.a}, {"to", link.pair.b}, {"answers", link.answers()}};
    if (link.numbers) {
      one["latency"] = link.numbers->latency;
      one["there"] = link.numbers->there;
      one["back"] = link.numbers->back;
    }
    json["links"].push_back(std::move(one));
  }
  if (diagnosis.output) {
    const OutputFacts& output = *diagnosis.output;
    json["output"] = {
        {"asked", output.asked},
        {"tried", output.tried},
        {"file_system", output.file_system},
        {"free", output.free},
        {"written", output.written},
        {"write_seconds", output.write_seconds},
        {"sync_seconds", output.sync_seconds},
        {"locks", !output.file.empty() && output.lock_failure.empty() && output.lock_holds}};
  }
  json["checks"] = Json::array();
  for (const Check& check : diagnosis.checks) {
    json["checks"].push_back(
        {{"check", check.name}, {"state", state_of(check)}, {"seen", check.seen}});
  }
  json["findings"] = Json::array();
  for (const Finding& finding : worst_first(diagnosis.checks)) {
    json["findings"].push_back({{"severity", to_string(finding.severity)},
                                {"where", finding.where},
                                {"what", finding.what},
                                {"why", finding.why},
                                {"remedy", finding.remedy}});
  }
  return json.dump(2) + "\n";
}

}  // namespace hetpipe
