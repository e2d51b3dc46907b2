// SPDX-License-Identifier: Apache-2.0
#include "partitioner/schedule/schedule.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <tuple>

#include "base/error.h"
#include "base/huge_pages.h"
#include "base/text.h"

namespace hetpipe {
namespace {

constexpr std::string_view kKinds = "FBWRSVUPLEC";

// Takes a number from the front of `text`.
template <class T>
bool take_number(std::string_view& text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || text[0] == '-') return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

// What messages carry that a text names, action by action.
class PayloadsByPlace {
 public:
  void find(Action& action) {
    const Pass pass{action.minibatch, action.micro, action.chunk, action.replica};
    const auto behind = [&](const std::set<Pass>& done) {
      return done.contains(pass) ? Payload::gradients : Payload::activations;
    };
    switch (action.kind) {
      case ActionKind::forward:
        forwards_.insert(pass);
        break;
      case ActionKind::backward:
        backwards_.insert(pass);
        break;
      case ActionKind::receive:
        action.payload = behind(forwards_);
        break;
      case ActionKind::send:
        action.payload = behind(backwards_);
        break;
      default:
        break;
    }
  }

 private:
  using Pass = std::tuple<Minibatch, int, int, int>;
  std::set<Pass> forwards_, backwards_;
};

}  // namespace

std::string to_string(const Action& action) {
  std::string text(1, static_cast<char>(action.kind));
  text += std::to_string(action.minibatch);
  if (action.micro != 0) text += '.' + std::to_string(action.micro);
  if (action.chunk != 0) text += '/' + std::to_string(action.chunk);
  if (action.replica != 0) text += '@' + std::to_string(action.replica);
  return text;
}

std::optional<Action> try_parse_action(std::string_view text) {
  if (text.size() < 2 || kKinds.find(text[0]) == std::string_view::npos) return std::nullopt;
  Action action;
  action.kind = static_cast<ActionKind>(text[0]);
  text.remove_prefix(1);
  if (!take_number(text, action.minibatch)) return std::nullopt;
  const auto part = [&](char mark, int& value) {
    if (text.empty() || text[0] != mark) return true;
    text.remove_prefix(1);
    return !text.empty() && take_number(text, value);
  };
  if (!part('.', action.micro) || !part('/', action.chunk) || !part('@', action.replica)) {
    return std::nullopt;
  }
  if (!text.empty()) return std::nullopt;
  return action;
}

std::string to_string(const StageActions& actions) {
  std::string text;
  for (const Action& action : actions) {
    if (!text.empty()) text += ' ';
    text += to_string(action);
  }
  return text;
}

StageActions parse_actions(std::string_view text) {
  StageActions actions;
  PayloadsByPlace payloads;
  Problems problems;
  for (const std::string& word : split(text, ' ')) {
    if (word.empty()) continue;
    if (const auto action = try_parse_action(word)) {
      actions.push_back(*action);
      payloads.find(actions.back());
    } else {
      problems.add("schedule", "'" + word +
                                   "' is not an action (a letter of F B W R S V U P L E C, then "
                                   "minibatch[.micro][/chunk][@replica], as in F3.1). Correct it.");
    }
  }
  problems.throw_if_any();
  return actions;
}

int minibatches_held(int in_flight, int stages, StageId stage) {
  ensure(in_flight > 0 && stage.value >= 0 && stage.value < stages, "no such stage");
  if (stages == 1) return 1;
  // One per stage from here to the last; what Nm has beyond the number of stages falls off evenly
  // towards the last stage, which needs none: it turns round at once.
  const int below = stages - 1 - stage.value;
  const int beyond = std::max(0, in_flight - stages) * below / (stages - 1);
  return std::min(in_flight, below + 1 + beyond);
}

Schedule continuous_1f1b(int stages, int in_flight, Minibatch first, Minibatch end) {
  ensure(stages > 0 && first >= 0 && end > first, "a schedule has stages and minibatches");
  Schedule schedule(static_cast<std::size_t>(stages));
  for (int k = 0; k < stages; ++k) {
    StageActions& actions = schedule[static_cast<std::size_t>(k)];
    reserve_huge(actions, 2 * static_cast<std::size_t>(end - first));
    const Minibatch held = minibatches_held(in_flight, stages, StageId{k});
    Minibatch forward = first;
    for (Minibatch backward = first; backward < end; ++backward) {
      for (; forward < end && forward < backward + held; ++forward) {
        actions.push_back({ActionKind::forward, forward});
      }
      actions.push_back({ActionKind::backward, backward});
    }
  }
  return schedule;
}

}  // namespace hetpipe
