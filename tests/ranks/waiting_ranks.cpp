// SPDX-License-Identifier: Apache-2.0
// What waiting costs, under mpirun.
//   waiting_ranks idle SECONDS [MOST]
//       All ranks wait: how often they look, and the cores that they use together. Exit code 1 if a
//       rank looks more than MOST times a second (a count, so that a busy machine cannot raise it).
//   waiting_ranks ping ROUNDS US
//       Ranks 0 and 1 pass a message to and fro, each works for US microseconds before it answers:
//       the time of a message beside that.
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "base/time.h"
#include "runtime/transport/mpi.h"
#include "runtime/transport/wait.h"

namespace hetpipe {
namespace {

double cpu_seconds() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

std::string something() { return "the other rank"; }

bool idle(Transport& transport, double seconds, double most) {
  transport.exchange({});
  const double before = cpu_seconds();
  const std::int64_t end = now_ns() + to_ns(seconds);
  std::vector<std::byte> memory(64);
  if (transport.rank() != Rank{0}) transport.receive(Rank{0}, Channel::forward, memory);
  std::int64_t looks = 0;
  const auto look = [&] {
    ++looks;
    transport.progress();
  };
  const double waited = wait_until([&] { return now_ns() >= end; }, look, 10 * seconds, something);
  const std::array<double, 2> mine{(cpu_seconds() - before) / waited,
                                   static_cast<double>(looks) / waited};
  if (transport.rank() == Rank{0}) {
    for (int r = 1; r < transport.ranks(); ++r) {
      transport.send(Rank{r}, Channel::forward, {}, memory);
    }
  }
  double cores = 0;
  double most_looks = 0;
  for (const auto& bytes : transport.exchange(std::as_bytes(std::span(mine)))) {
    std::array<double, 2> one{};
    std::memcpy(one.data(), bytes.data(), sizeof one);
    cores += one[0];
    most_looks = std::max(most_looks, one[1]);
  }
  if (transport.rank() == Rank{0}) {
    std::printf("%d waiting ranks look up to %.0f times a second and use %.3f cores\n",
                transport.ranks(), most_looks, cores);
  }
  return most_looks <= most;
}

void ping(Transport& transport, int rounds, double microseconds) {
  const int self = transport.rank().value;
  if (self > 1) return;
  std::vector<std::byte> memory(64);
  std::vector<double> times;
  for (int i = 0; i < rounds; ++i) {
    const std::int64_t start = now_ns();
    for (int turn = 0; turn < 2; ++turn) {
      if (turn == self) {
        const std::int64_t end = now_ns() + to_ns(1e-6 * microseconds);
        while (now_ns() < end) {
        }
        transport.send(Rank{1 - self}, Channel::forward, {}, memory);
      } else {
        const Operation got = transport.receive(Rank{1 - self}, Channel::forward, memory);
        wait_until([&] { return got.done(); }, [&] { transport.progress(); }, 60, something);
      }
    }
    times.push_back((1e6 * seconds_between(start, now_ns()) - 2 * microseconds) / 2);
  }
  wait_until([&] { return transport.idle(); }, [&] { transport.progress(); }, 60, something);
  std::sort(times.begin(), times.end());
  const auto share = [&](double of) {
    return times[static_cast<std::size_t>(of * static_cast<double>(times.size() - 1))];
  };
  if (self == 0) {
    std::printf("a message after %.0f us of work: %.1f us (median), %.1f us (90 %%)\n",
                microseconds, share(0.5), share(0.9));
  }
}

}  // namespace
}  // namespace hetpipe

int main(int argc, char** argv) {
  hetpipe::MpiSession session(&argc, &argv);
  const auto transport = session.make_transport();
  const auto number = [&](int i, double unset) { return argc > i ? std::atof(argv[i]) : unset; };
  if (argc > 1 && std::string(argv[1]) == "idle") {
    return hetpipe::idle(*transport, number(2, 3), number(3, 1e9)) ? 0 : 1;
  }
  hetpipe::ping(*transport, static_cast<int>(number(2, 1000)), number(3, 0));
  transport->exchange({});
}
