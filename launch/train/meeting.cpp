// SPDX-License-Identifier: Apache-2.0
#include "launch/train/meeting.h"

#include <cstdio>
#include <exception>
#include <functional>
#include <nlohmann/json.hpp>
#include <span>

#include "base/text.h"
#include "launch/failure.h"

namespace hetpipe {
namespace {

using Json = nlohmann::json;

struct MachineFailed {
  int code;
};

// One round: every rank says what `mine` returns, or why it cannot.
std::vector<std::string> round(Transport& transport, const std::vector<RankFacts>& facts,
                               const std::function<std::string()>& mine) {
  Json said{{"text", ""}, {"error", ""}, {"code", 0}};
  try {
    said["text"] = mine();
  } catch (const std::exception& error) {
    said["error"] = text_of(error);
    said["code"] = static_cast<int>(exit_code_of(error));
    if (exit_code_of(error) != ExitCode::user) {
      // Said before the others hear of it, and the launcher ends the job.
      const int self = transport.rank().value;
      const std::string host =
          facts.empty() ? "" : " on " + facts[static_cast<std::size_t>(self)].host;
      std::fprintf(stderr, "rank %d%s: %s\n", self, host.c_str(), text_of(error).c_str());
    }
  }
  const std::string bytes = said.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::vector<std::string> texts;
  Problems problems;
  for (const auto& heard : transport.exchange(std::as_bytes(std::span(bytes)))) {
    const auto rank = texts.size();
    const Json their =
        Json::parse(std::string(reinterpret_cast<const char*>(heard.data()), heard.size()));
    texts.push_back(their.at("text").get<std::string>());
    const int code = their.at("code").get<int>();
    if (code == 0) continue;
    if (code != static_cast<int>(ExitCode::user)) throw MachineFailed{code};
    const bool first = rank == 0 || facts.empty();
    problems.add(first ? "" : format("rank %zu on %s", rank, facts[rank].host.c_str()),
                 their.at("error").get<std::string>());
  }
  problems.throw_if_any();
  return texts;
}

// What a rank that reads samples finds where it looks for them; a server looks nowhere.
void open_own_data(const TrainCall& call, const TrainJob& job, const Role& role) {
  if (!role.worker) return;
  const auto& stages =
      job.plan.virtual_workers[static_cast<std::size_t>(role.worker->virtual_worker.value)].stages;
  const auto& own = role.worker->stages;
  if (own.front().value != 0 && own.back().value + 1 != static_cast<int>(stages.size())) return;
  const OpenData open = data_of(call.options, job);
  open(Split::train, Parts::labels);
  if (job.test_size > 0) open(Split::test, Parts::labels);
}

}  // namespace

Meeting meet(const TrainCall& call, Transport& transport, Log& log) try {
  const int self = transport.rank().value;
  const bool first = self == 0;
  Meeting meeting;
  const auto facts_here = [&] {
    RankFacts facts = facts_of_this_rank();
    facts.configuration = call.configuration;
    return to_text(facts);
  };
  for (const std::string& text : round(transport, {}, facts_here)) {
    meeting.facts.push_back(facts_from_text(text));
  }
  check_alike(meeting.facts);

  const auto job_here = [&] {
    if (!first) return std::string();
    meeting.prepared = prepare_training(call.options, transport.ranks(), call.command, log);
    return to_text(meeting.prepared.job);
  };
  meeting.job = job_from_text(round(transport, meeting.facts, job_here).front());
  meeting.roles = decide_roles(meeting.job, meeting.facts, call.command);
  check_together(meeting.facts, meeting.roles, meeting.job, call.command);

  round(transport, meeting.facts, [&] {
    open_own_data(call, meeting.job, meeting.roles.of_rank[static_cast<std::size_t>(self)]);
    return std::string();
  });

  const auto directory_here = [&] {
    if (!first) return std::string();
    take_run_directory(call.options, call.configuration, meeting.prepared, log);
    return to_text(meeting.prepared.job);
  };
  meeting.job = job_from_text(round(transport, meeting.facts, directory_here).front());
  return meeting;
} catch (const MachineFailed& failure) {
  Meeting none;
  none.code = failure.code;
  return none;
}

}  // namespace hetpipe
