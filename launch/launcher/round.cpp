// SPDX-License-Identifier: Apache-2.0
#include "launch/launcher/round.h"

#include <cstdio>
#include <exception>
#include <nlohmann/json.hpp>
#include <span>

#include "base/failure.h"
#include "base/text.h"

namespace hetpipe {

using Json = nlohmann::json;

std::vector<std::string> round(Transport& transport, const std::vector<std::string>& hosts,
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
      const std::string host = hosts.empty() ? "" : " on " + hosts[static_cast<std::size_t>(self)];
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
    const bool first = rank == 0 || hosts.empty();
    problems.add(first ? "" : format("rank %zu on %s", rank, hosts[rank].c_str()),
                 their.at("error").get<std::string>());
  }
  problems.throw_if_any();
  return texts;
}

}  // namespace hetpipe
