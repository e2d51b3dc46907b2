// SPDX-License-Identifier: Apache-2.0
#include "runtime/transport/lifeline.h"

#include <cstring>
#include <random>

#include "base/bytes.h"
#include "base/error.h"
#include "base/fields_json.h"
#include "base/hash.h"
#include "base/text.h"
#include "base/time.h"
#include "runtime/transport/lifeline_monitor.h"
#include "runtime/transport/lifeline_socket.h"
#include "runtime/transport/wait.h"

namespace hetpipe {
namespace {

constexpr double kConnectSeconds = 2;  // for each address
constexpr double kHelloSeconds = 5;
constexpr std::uint32_t kHello = 1;

// The first thing on a connection. The token keeps strangers and other jobs out.
struct Hello {
  std::int32_t rank = 0;
  char token[36] = "";
};

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
  Listener listener;
  if (hub && ranks > 1) {
    try {
      listener = listen_for(ranks, one_machine ? Reach::this_machine : Reach::all_machines);
      mine.port = listener.port;
      mine.token = make_token();
      if (!one_machine) mine.addresses = own_addresses();
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
      FrameStream stream(connect_to(addresses, host.port, kConnectSeconds));
      Hello hello{.rank = setup.rank.value};
      std::strncpy(hello.token, host.token.c_str(), sizeof hello.token - 1);
      stream.send(kHello, std::as_bytes(std::span(&hello, 1)));
      peers.emplace(Rank{0}, Monitor::Peer(std::move(stream)));
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
  if (hub && !expected.empty()) {
    // All of these are connected already, and their hello is on its way.
    std::vector<FrameStream> strangers;
    const auto greet = [&] {
      while (auto socket = try_accept(listener.socket)) strangers.emplace_back(std::move(*socket));
      std::erase_if(strangers, [&](FrameStream& stream) {
        const auto frames = stream.receive();
        if (frames.empty()) return stream.ended();
        Hello hello;
        if (frames[0].kind != kHello || frames[0].bytes.size() != sizeof hello) return true;
        std::memcpy(&hello, frames[0].bytes.data(), sizeof hello);
        hello.token[sizeof hello.token - 1] = '\0';
        if (mine.token == hello.token && 0 < hello.rank && hello.rank < ranks) {
          peers.emplace(Rank{hello.rank}, Monitor::Peer(std::move(stream)));
        }
        return true;
      });
    };
    const std::int64_t end = now_ns() + to_ns(kHelloSeconds);
    const auto complete = [&] { return peers.size() == expected.size() || now_ns() > end; };
    wait_until(complete, greet, 2 * kHelloSeconds,
               [] { return std::string("connections from rank 0 to all ranks"); });
    for (const Rank rank : expected) {
      if (!peers.contains(rank)) without.push_back(format("rank %d (no hello)", rank.value));
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
