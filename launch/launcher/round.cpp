// SPDX-License-Identifier: Apache-2.0
#include "launch/launcher/round.h"

#include <cstdio>
#include <exception>
#include <span>

#include "base/bytes.h"
#include "base/failure.h"
#include "base/text.h"

namespace hetpipe {
namespace {

struct SaidInRound {
  std::string text{};
  std::string error{};
  int code = 0;
};
constexpr auto fields_of(Type<SaidInRound>) {
  return fields<&SaidInRound::text, &SaidInRound::error, &SaidInRound::code>;
}

}  // namespace

std::vector<std::string> round(Transport& transport, const std::vector<std::string>& hosts,
                               const std::function<std::string()>& mine) {
  SaidInRound said;
  try {
    said.text = mine();
  } catch (const std::exception& error) {
    said.error = text_of(error);
    said.code = static_cast<int>(exit_code_of(error));
    if (exit_code_of(error) != ExitCode::user) {
      // SaidInRound before the others hear of it, and the launcher ends the job.
      const int self = transport.rank().value;
      const std::string host = hosts.empty() ? "" : " on " + hosts[static_cast<std::size_t>(self)];
      std::fprintf(stderr, "rank %d%s: %s\n", self, host.c_str(), text_of(error).c_str());
    }
  }
  const std::string bytes = to_text(said);
  std::vector<std::string> texts;
  Problems problems;
  for (const auto& heard : transport.exchange(std::as_bytes(std::span(bytes)))) {
    const auto rank = texts.size();
    // The first round of all may be one of different builds.
    const auto their = from_text<SaidInRound>(as_text(heard), Keys::as_far_as_known);
    texts.push_back(their.text);
    if (their.code == 0) continue;
    if (their.code != static_cast<int>(ExitCode::user)) throw MachineFailed{their.code};
    const bool first = rank == 0 || hosts.empty();
    problems.add(first ? "" : format("rank %zu on %s", rank, hosts[rank].c_str()), their.error);
  }
  problems.throw_if_any();
  return texts;
}

}  // namespace hetpipe
