// SPDX-License-Identifier: Apache-2.0
#include "runtime/transport/lifeline.h"

#include <random>

#include "base/bytes.h"
#include "base/error.h"
#include "base/fields_json.h"
#include "base/hash.h"
#include "base/text.h"
#include "runtime/transport/lifeline_monitor.h"
#include "runtime/transport/lifeline_reception.h"

namespace hetpipe {
namespace {

std::string make_token() {
  std::random_device random;
  const auto word = [&] { return (std::uint64_t{random()} << 32) | random(); };
  return to_hex(word()) + to_hex(word());
}

// What a rank says in the first exchange.
struct Introduction {
  ProcessId process;
  int port = 0;  // rank 0 alone, as what follows
  std::string token;
  std::string problem;
  std::vector<std::string> addresses;
};
constexpr auto fields_of(Type<Introduction>) {
  return fields<&Introduction::process, &Introduction::port, &Introduction::token,
                &Introduction::problem, &Introduction::addresses>;
}

std::span<const std::byte> as_bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

}  // namespace

Lifeline::Lifeline(LifelineSetup setup) {
  const bool hub = setup.rank == Rank{0};
  const auto ranks = static_cast<int>(setup.machines.size());
  bool one_machine = true;
  for (const std::string& machine : setup.machines) one_machine &= machine == setup.machines[0];

  Introduction mine{.process = ProcessId::self(), .token = {}, .problem = {}, .addresses = {}};
  std::optional<Reception> reception;
  if (hub && ranks > 1) {
    try {
      Listener listener = listen_for(one_machine ? Reach::this_machine : Reach::all_machines);
      mine.port = listener.port;
      mine.token = make_token();
      if (!one_machine) mine.addresses = own_addresses();
      reception.emplace(std::move(listener), mine.token, ranks);
    } catch (const SystemError& error) {
      mine.problem = error.what();
    }
  }
  const std::string introduction = to_text(mine);
  std::vector<Introduction> all;
  for (const auto& bytes : setup.exchange(as_bytes_of(introduction))) {
    // Whether all are of one build is not known yet.
    all.push_back(from_text<Introduction>(as_text(bytes), Keys::as_far_as_known));
  }
  const Introduction& host = all.front();

  Monitor::Peers peers;
  std::string complaint = host.problem;
  if (!hub && complaint.empty()) {
    const bool near =
        setup.machines[static_cast<std::size_t>(setup.rank.value)] == setup.machines[0];
    try {
      const std::vector<std::string> addresses =
          near ? std::vector<std::string>{"127.0.0.1"} : host.addresses;
      peers.emplace(Rank{0},
                    Monitor::Peer(be_received(addresses, host.port, setup.rank, host.token)));
    } catch (const SystemError& error) {
      complaint = error.what();
    }
  }
  std::vector<Rank> expected;
  std::vector<std::string> without;
  const auto answers = setup.exchange(as_bytes_of(complaint));
  for (int r = 1; r < ranks; ++r) {
    const auto& answer = answers[static_cast<std::size_t>(r)];
    if (answer.empty()) {
      expected.emplace_back(r);
    } else {
      without.push_back(format("rank %d (%s)", r, std::string(as_text(answer)).c_str()));
    }
  }
  if (reception) {
    // Those who think that they are connected are.
    std::map<Rank, FrameStream> guests = reception->close();
    for (const Rank rank : expected) {
      if (const auto guest = guests.find(rank); guest != guests.end()) {
        peers.emplace(rank, Monitor::Peer(std::move(guest->second)));
      } else {
        without.push_back(format("rank %d (its connection ended at once)", rank.value));
      }
    }
  }
  if (hub) problem_ = join(without, ", ");
  std::vector<ProcessId> processes;
  for (const Introduction& one : all) processes.push_back(one.process);
  monitor_ = std::make_unique<Monitor>(std::move(setup), std::move(processes), std::move(peers));
}

Lifeline::~Lifeline() = default;

const std::string& Lifeline::problem() const { return problem_; }

std::vector<RankState> Lifeline::states() const { return monitor_->states(); }

void Lifeline::check() const {
  if (const auto code = monitor_->leaving()) throw JobEnds(*code);
}

std::optional<int> Lifeline::report(int code, const std::string& text,
                                    std::optional<Rank> culprit) {
  if (!monitor_->connected()) return std::nullopt;
  return monitor_->report(
      {.what = Failure::What::said, .ranks = {}, .code = code, .text = text, .culprit = culprit});
}

void Lifeline::goodbye() {
  if (monitor_->connected()) monitor_->goodbye();
  check();
}

}  // namespace hetpipe
