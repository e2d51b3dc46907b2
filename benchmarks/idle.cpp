// SPDX-License-Identifier: Apache-2.0
// Table idle: cores that waiting ranks use. mpirun -n 5 bench_idle RAW.json SECONDS ROUNDS
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "base/text.h"
#include "base/time.h"
#include "benchmarks/statistics.h"
#include "runtime/pipeline/rank_service.h"
#include "runtime/transport/mpi.h"

namespace hetpipe::bench {
namespace {

constexpr double kGoal = 0.2;
constexpr double kTimeout = 600;

struct Used {
  double user = 0, system = 0;
};

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

Used used_so_far() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  return {seconds(used.ru_utime), seconds(used.ru_stime)};
}

// All ranks but the first wait for a message that the first sends at the end; the first waits for
// the time to pass. Cores that all of them used.
Used wait_together(RankService& service, double length) {
  Transport& transport = service.transport();
  std::vector<std::byte> memory(64);
  transport.exchange({});
  const Used before = used_so_far();
  const std::int64_t start = now_ns();
  const std::int64_t end = start + to_ns(length);
  if (transport.rank() == Rank{0}) {
    service.wait([end] { return now_ns() >= end; }, [] { return std::string("time to pass"); });
  } else {
    const Operation operation = transport.receive(Rank{0}, Channel::forward, memory);
    // As a stage waits for its next minibatch; the first rank's message ends it.
    service.wait([&] { return operation.done() || now_ns() >= end; },
                 [] { return std::string("a message"); });
    const Used after = used_so_far();
    service.wait(operation, [] { return std::string("a message"); });
    const double real = seconds_between(start, std::min(end, now_ns()));
    const Used mine{(after.user - before.user) / real, (after.system - before.system) / real};
    transport.exchange(std::as_bytes(std::span(&mine, 1)));
    return {};
  }
  const Used after = used_so_far();
  const Used mine{(after.user - before.user) / length, (after.system - before.system) / length};
  for (int r = 1; r < transport.ranks(); ++r) {
    transport.send(Rank{r}, Channel::forward, {}, memory);
  }
  Used all;
  for (const auto& bytes : transport.exchange(std::as_bytes(std::span(&mine, 1)))) {
    Used one;
    std::memcpy(&one, bytes.data(), sizeof one);
    all.user += one.user;
    all.system += one.system;
  }
  service.wait([&] { return transport.idle(); }, [] { return std::string("messages to be sent"); });
  return all;
}

void run(Transport& transport, const std::string& raw_path, double length, int rounds) {
  RankService service(transport, kTimeout);
  std::vector<double> cores, user, system;
  for (int r = 0; r < rounds; ++r) {
    const Used all = wait_together(service, length);
    cores.push_back(all.user + all.system);
    user.push_back(all.user);
    system.push_back(all.system);
  }
  if (transport.rank() != Rank{0}) return;
  RawValues raw(raw_path);
  raw.add("cores, user", user);
  raw.add("cores, system", system);
  const Spread spread = spread_of(cores);
  std::printf(
      "Cores that %d ranks under mpirun use together while each waits for a message "
      "(RankService::wait, which every wait of a run goes through), from getrusage: median and "
      "quartiles of %d waits of %.0f s; the goal is below %.1f.\n\n",
      transport.ranks(), rounds, length, kGoal);
  std::printf("| waiting ranks | cores | of that user | of that system | goal met |\n");
  std::printf("|---|---|---|---|---|\n");
  std::printf("| %d | %s | %s | %s | %s |\n", transport.ranks(), to_string(spread, "%.3f").c_str(),
              to_string(spread_of(user), "%.3f").c_str(),
              to_string(spread_of(system), "%.3f").c_str(), spread.median < kGoal ? "yes" : "no");
  std::printf(
      "\nWhere it goes: user time is MPI checking its queues, system time is falling asleep and "
      "waking up."
      "\n");
}

}  // namespace
}  // namespace hetpipe::bench

int main(int argc, char** argv) {
  using namespace hetpipe;
  MpiSession session(&argc, &argv);
  if (argc != 4 || session.ranks() < 2) {
    if (session.rank() == Rank{0}) {
      std::fprintf(stderr, "usage: mpirun -n 5 bench_idle RAW.json SECONDS ROUNDS\n");
    }
    return 2;
  }
  const auto transport = session.make_transport();
  try {
    bench::run(*transport, argv[1], std::atof(argv[2]), std::atoi(argv[3]));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d: %s\n", session.rank().value, error.what());
    transport->abort(3);
  }
  return 0;
}
