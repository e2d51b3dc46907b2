// SPDX-License-Identifier: Apache-2.0
#include "launch/probe/conduct.h"

#include <algorithm>
#include <exception>
#include <limits>
#include <string>
#include <tuple>

#include "base/error.h"
#include "base/failure.h"
#include "base/text.h"
#include "base/time.h"
#include "runtime/transport/messages.h"
#include "runtime/transport/wait.h"

namespace hetpipe {
namespace {

enum class ConductKind : std::int32_t { go = first_after<TransportKind>, reply, dismissed };

struct Go {
  static constexpr auto kKind = ConductKind::go;
  int step = 0;
};
struct Reply {
  static constexpr auto kKind = ConductKind::reply;
  int step = 0;
  bool failed = false;
  std::string text{};
  static auto fields(auto& m) { return std::tie(m.step, m.failed, m.text); }
};
struct Dismissed {
  static constexpr auto kKind = ConductKind::dismissed;
  int code = 0;
};

constexpr double kReplySeconds = 2;      // for a reply's own way, after the step's deadline
constexpr double kPatienceSeconds = 60;  // for rank 0, beside the steps
constexpr double kForever = std::numeric_limits<double>::infinity();

struct Acted {
  std::string text;
  bool failed = false;
};

Acted act_here(const std::function<std::string(int step)>& act, int step) {
  try {
    return {act(step), false};
  } catch (const std::exception& error) {
    return {text_of(error), true};
  }
}

// Until all messages posted here have left.
void flush(Transport& transport) {
  wait_until([&] { return transport.idle(); }, [&] { transport.progress(); }, kPatienceSeconds,
             [] { return std::string("the other ranks to receive their messages"); });
}

std::vector<StepReply> conduct_step(Transport& transport, const ProbeStep& step, int number,
                                    const std::function<std::string(int step)>& act) {
  const int self = transport.rank().value;
  std::vector<StepReply> replies(step.ranks.size());
  std::size_t missing = replies.size();
  const auto take = [&](int rank, bool failed, std::string text) {
    for (std::size_t i = 0; i < replies.size(); ++i) {
      if (step.ranks[i] != rank || replies[i].text) continue;
      replies[i].text = failed ? std::string() : text;
      replies[i].failure = failed ? text : std::string();
      --missing;
    }
  };
  const std::int64_t end = now_ns() + to_ns(step.deadline_seconds + kReplySeconds);
  bool mine = false;
  for (const int rank : step.ranks) {
    if (rank == self) {
      mine = true;
    } else {
      send_control(transport, Rank{rank}, Go{number});
    }
  }
  if (mine) {
    Acted acted = act_here(act, number);
    take(self, acted.failed, std::move(acted.text));
  }
  const auto poll = [&] {
    transport.progress();
    while (const auto message = transport.try_receive_control()) {
      const auto reply = read_as<Reply>(*message);
      // What belongs to an earlier step came too late.
      if (reply.step == number) take(message->from.value, reply.failed, reply.text);
    }
  };
  wait_until([&] { return missing == 0 || now_ns() > end; }, poll, kForever,
             [] { return std::string("replies"); });
  return replies;
}

}  // namespace

std::vector<std::vector<StepReply>> conduct(Transport& transport,
                                            const std::vector<ProbeStep>& steps,
                                            const std::function<std::string(int step)>& act) {
  std::vector<std::vector<StepReply>> replies;
  for (const ProbeStep& step : steps) {
    replies.push_back(conduct_step(transport, step, static_cast<int>(replies.size()), act));
  }
  return replies;
}

int follow(Transport& transport, const std::vector<ProbeStep>& steps,
           const std::function<std::string(int step)>& act) {
  double patience = kPatienceSeconds;
  for (const ProbeStep& step : steps) patience += step.deadline_seconds + kReplySeconds;
  for (;;) {
    std::optional<ControlMessage> message;
    wait_until([&] { return (message = transport.try_receive_control()).has_value(); },
               [&] { transport.progress(); }, patience,
               [] { return std::string("rank 0 to say who measures next"); });
    if (is_a<Dismissed>(*message)) return read_as<Dismissed>(*message).code;
    const int number = read_as<Go>(*message).step;
    ensure(0 <= number && number < static_cast<int>(steps.size()), "an unknown step");
    const Acted acted = act_here(act, number);
    send_control(transport, Rank{0}, Reply{number, acted.failed, acted.text});
  }
}

void dismiss(Transport& transport, int code) {
  for (int rank = 0; rank < transport.ranks(); ++rank) {
    if (rank == transport.rank().value) continue;
    send_control(transport, Rank{rank}, Dismissed{code});
  }
  flush(transport);
}

}  // namespace hetpipe
