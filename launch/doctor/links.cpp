// SPDX-License-Identifier: Apache-2.0
#include "launch/doctor/links.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/index.h"
#include "base/time.h"
#include "kernels/devices.h"
#include "launch/launcher/round.h"
#include "runtime/transport/lifeline_socket.h"
#include "runtime/transport/wait.h"

namespace hetpipe {
namespace {

constexpr std::size_t kMost = 4 << 20;  // bytes of the largest message
constexpr double kMeasureSeconds = 1;   // of all rounds together, about; many take longer
constexpr double kLeastPair = 0.05, kMostPair = 0.2;  // s
constexpr std::int32_t kHello = 1;

// What a rank has measured of a pair.
struct Asked {
  RankPair pair;
  LinkNumbers numbers;
};
constexpr auto fields_of(Type<Asked>) { return fields<&Asked::pair, &Asked::numbers>; }

void meet(Transport& transport) { transport.exchange({}); }

}  // namespace

std::vector<std::vector<RankPair>> tournament(int ranks) {
  // The first stays, the others move on by one seat each round; who faces an empty seat rests.
  const int seats = ranks + ranks % 2;
  const auto at_seat = [&](int seat, int round) {
    return seat == 0 ? 0 : 1 + (seat - 1 + round) % (seats - 1);
  };
  std::vector<std::vector<RankPair>> rounds;
  for (int round = 0; ranks > 1 && round + 1 < seats; ++round) {
    std::vector<RankPair>& pairs = rounds.emplace_back();
    for (int seat = 0; seat < seats / 2; ++seat) {
      const int one = at_seat(seat, round);
      const int other = at_seat(seats - 1 - seat, round);
      if (std::max(one, other) < ranks) {
        pairs.push_back({std::min(one, other), std::max(one, other)});
      }
    }
  }
  return rounds;
}

LinkTests::LinkTests(Transport& transport, double seconds)
    : transport_(transport), seconds_(seconds) {}

LinkTests::~LinkTests() = default;

// [rank][other rank]: why the one's host knows no way to the other's; empty: it does.
std::vector<std::vector<std::string>> LinkTests::routes() {
  const auto addresses = round_of(transport_, {}, [] { return own_addresses(); });
  const auto mine = [&] {
    std::vector<std::string> why;
    for (const std::vector<std::string>& of_rank : addresses) why.push_back(why_no_route(of_rank));
    return why;
  };
  return round_of(transport_, {}, mine);
}

std::vector<bool> LinkTests::hear_all(const std::vector<std::vector<std::string>>& no_route) {
  const int self = transport_.rank().value;
  std::vector<bool> heard(at(transport_.ranks()), false);
  heard[at(self)] = true;
  std::ptrdiff_t silent = 0;  // ranks that are not asked
  for (int rank = 0; rank < transport_.ranks(); ++rank) {
    if (rank == self) continue;
    if (!no_route[at(self)][at(rank)].empty() || !no_route[at(rank)][at(self)].empty()) {
      ++silent;
      continue;
    }
    try {
      transport_.send_control(Rank{rank}, {.kind = kHello});
    } catch (const SystemError&) {
      // MPI knows no way there: nothing will be heard, which is reported like any other silence.
    }
  }
  const std::int64_t end = now_ns() + to_ns(seconds_);
  const auto poll = [&] {
    transport_.progress();
    while (const auto message = transport_.try_receive_control()) {
      heard[at(message->from.value)] = true;
    }
  };
  const auto all = [&] { return std::count(heard.begin(), heard.end(), false) == silent; };
  wait_until([&] { return (all() && transport_.idle()) || now_ns() > end; }, poll,
             std::numeric_limits<double>::infinity(), [] { return std::string("the others"); });
  return heard;
}

// What the rank that asks has measured; nothing where it is not this one.
std::optional<LinkNumbers> LinkTests::measure(const RankPair& pair, double seconds) {
  if (!end_) {
    device_ = make_device("cpu", 1);
    end_.emplace(transport_, *device_, kMost);
  }
  const double deadline = seconds_ + 3 * seconds;  // of all that the two send each other
  if (transport_.rank().value == pair.b) {
    end_->answer(Rank{pair.a}, deadline);
    return {};
  }
  return end_->ask(Rank{pair.b}, seconds, deadline);
}

std::vector<PairLink> LinkTests::run() {
  const int ranks = transport_.ranks();
  const int self = transport_.rank().value;
  const std::vector<std::vector<std::string>> no_route = routes();
  meet(transport_);  // from here all have the same time
  const std::vector<bool> mine = hear_all(no_route);
  const std::vector<std::vector<bool>> heard = round_of(transport_, {}, [&] { return mine; });
  std::vector<PairLink> links;
  for (int a = 0; a < ranks; ++a) {
    for (int b = a + 1; b < ranks; ++b) {
      const std::string& there = no_route[at(a)][at(b)];
      links.push_back({.pair = {a, b},
                       .a_heard_b = heard[at(a)][at(b)],
                       .b_heard_a = heard[at(b)][at(a)],
                       .no_route = there.empty() ? no_route[at(b)][at(a)] : there});
    }
  }
  const auto link_of = [&](const RankPair& pair) -> PairLink& {
    return links[at(pair.a * (2 * ranks - pair.a - 1) / 2 + pair.b - pair.a - 1)];
  };
  std::vector<Asked> asked;
  const double each = std::clamp(kMeasureSeconds / ranks, kLeastPair, kMostPair);
  for (const std::vector<RankPair>& pairs : tournament(ranks)) {
    meet(transport_);
    for (const RankPair& pair : pairs) {
      if (self != pair.a && self != pair.b) continue;
      const PairLink& link = link_of(pair);
      if (!link.a_heard_b || !link.b_heard_a) continue;
      if (const auto numbers = measure(pair, each)) asked.push_back({pair, *numbers});
    }
  }
  for (const std::vector<Asked>& of_rank : round_of(transport_, {}, [&] { return asked; })) {
    for (const Asked& one : of_rank) link_of(one.pair).numbers = one.numbers;
  }
  return links;
}

}  // namespace hetpipe
