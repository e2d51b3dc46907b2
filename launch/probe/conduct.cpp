// SPDX-License-Identifier: Apache-2.0
#include "launch/probe/conduct.h"

#include <algorithm>
#include <exception>
#include <limits>
#include <span>

#include "base/error.h"
#include "base/failure.h"
#include "base/text.h"
#include "base/time.h"
#include "runtime/transport/wait.h"

namespace hetpipe {
namespace {

enum Kind : std::int32_t { kGo, kReply, kFailure, kDismissed };  // of control messages

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

std::string text_of(const ControlMessage& message) {
  return {reinterpret_cast<const char*>(message.payload.data()), message.payload.size()};
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
      transport.send_control(Rank{rank}, {.kind = kGo, .minibatch = number});
    }
  }
  if (mine) {
    Acted acted = act_here(act, number);
    take(self, acted.failed, std::move(acted.text));
  }
  const auto poll = [&] {
    transport.progress();
    while (const auto message = transport.try_receive_control()) {
      // What belongs to an earlier step came too late.
      if (message->header.minibatch != number) continue;
      take(message->from.value, message->header.kind == kFailure, text_of(*message));
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
    if (message->header.kind == kDismissed) return static_cast<int>(message->header.label);
    const auto number = message->header.minibatch;
    ensure(0 <= number && number < static_cast<std::int64_t>(steps.size()), "an unknown step");
    const Acted acted = act_here(act, static_cast<int>(number));
    transport.send_control(Rank{0}, {.kind = acted.failed ? kFailure : kReply, .minibatch = number},
                           std::as_bytes(std::span(acted.text)));
  }
}

void dismiss(Transport& transport, int code) {
  for (int rank = 0; rank < transport.ranks(); ++rank) {
    if (rank == transport.rank().value) continue;
    transport.send_control(Rank{rank}, {.kind = kDismissed, .label = code});
  }
  flush(transport);
}

}  // namespace hetpipe
