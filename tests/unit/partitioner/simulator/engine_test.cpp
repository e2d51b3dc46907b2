// SPDX-License-Identifier: Apache-2.0
#include "partitioner/simulator/engine.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "naive_engine.h"

namespace hetpipe {
namespace engine_test {

// Two interfaces (out of node A, into node B) and routes over both.
struct Pair {
  EngineJob job;
  int out = 0, in = 1;
  Pair() { job.interfaces = 2; }
  int route(int process, double bandwidth, double latency = 0, double buffer = 0) {
    return job.add_route({bandwidth, latency, out, in, process, buffer});
  }
};

TEST(Engine, ComputesAndReceives) {
  EngineJob job;
  const int route = job.add_route({10, 1, -1, -1, 0});
  const int signal = job.add_signal();
  const int message = job.add_transfer(route, 20, signal);
  job.compute(3);
  job.send(message);
  job.compute(1);
  job.end_process();
  job.compute(0.5);
  job.wait(signal);
  job.compute(1);
  job.end_process();
  Engine engine;
  const EngineTimes& times = engine.play(job);
  EXPECT_EQ(times.end, (std::vector<double>{3, 3, 4, 0.5, 6, 7}));  // 3 + 20 / 10 + 1
  EXPECT_EQ(times.start(job, 1, 4), 0.5);
  EXPECT_EQ(times.start(job, 1, 3), 0);
  EXPECT_EQ(times.on_the_wire[0], 3);
}

// Two senders on one node, own bandwidths 10 and 20 B/s. Together each has half of the interface's
// time: 5 and 10 B/s. The first is done with 10 of its bytes at 2, when the other (20 B) ends; the
// last 10 go alone.
TEST(Engine, FlowsShareAnInterfaceInTime) {
  Pair pair;
  EngineJob& job = pair.job;
  const int slow = job.add_signal();
  const int fast = job.add_signal();
  const int a = job.add_transfer(pair.route(0, 10), 20, slow);
  const int b = job.add_transfer(pair.route(1, 20), 20, fast);
  job.send(a);
  job.end_process();
  job.send(b);
  job.end_process();
  Engine engine;
  const EngineTimes& times = engine.play(job);
  EXPECT_DOUBLE_EQ(times.fired[static_cast<std::size_t>(fast)], 2);
  EXPECT_DOUBLE_EQ(times.fired[static_cast<std::size_t>(slow)], 3);
}

// 300 flows over one interface, of 1 to 300 bytes: where n are left each has 1 / n of it. Every end
// changes all rates, so that most of the 45,000 events that this takes are void before they come.
TEST(Engine, ManyFlowsEndOneAfterTheOther) {
  EngineJob job;
  job.interfaces = 1;
  constexpr int kFlows = 300;
  std::vector<int> signals;
  for (int p = 0; p < kFlows; ++p) {
    const int route = job.add_route({100, 0, 0, -1, p});
    signals.push_back(job.add_signal());
    const int bytes = p * 7 % kFlows + 1;  // in no order
    job.send(job.add_transfer(route, bytes, signals.back()));
    job.end_process();
  }
  Engine engine;
  for (int again = 0; again < 2; ++again) {
    const EngineTimes& times = engine.play(job);
    std::vector<double> ends(kFlows + 1, 0.0);  // [bytes]
    for (int bytes = 1; bytes <= kFlows; ++bytes) {
      ends[static_cast<std::size_t>(bytes)] =
          ends[static_cast<std::size_t>(bytes) - 1] + (kFlows - bytes + 1) / 100.0;
    }
    for (int p = 0; p < kFlows; ++p) {
      EXPECT_NEAR(times.fired[static_cast<std::size_t>(signals[static_cast<std::size_t>(p)])],
                  ends[static_cast<std::size_t>(p * 7 % kFlows + 1)], 1e-9);
    }
  }
}

// Max-min: flows 1 and 2 leave A, flows 2, 3 and 4 enter B. B gives 1/3 to each of its three; flow
// 1 has what flow 2 leaves of A: 2/3.
TEST(Engine, WhatAFlowCannotUseGoesToTheOthers) {
  EngineJob job;
  job.interfaces = 6;
  const int routes[] = {
      job.add_route({1, 0, 0, 2, 0}),
      job.add_route({1, 0, 0, 3, 1}),
      job.add_route({1, 0, 4, 3, 2}),
      job.add_route({1, 0, 5, 3, 3}),
  };
  for (const int route : routes) {
    const int message = job.add_transfer(route, 100, job.add_signal());
    job.send(message);
    job.end_process();
  }
  Engine engine;
  const EngineTimes& times = engine.play(job);
  EXPECT_DOUBLE_EQ(times.fired[0], 150);
  EXPECT_DOUBLE_EQ(times.fired[1], 300);
  EXPECT_DOUBLE_EQ(times.fired[2], 300);
  EXPECT_DOUBLE_EQ(times.fired[3], 300);
}

// Messages of one pair go one after the other; the second starts while the first is in its latency.
TEST(Engine, APairsMessagesQueue) {
  for (const bool shared : {false, true}) {
    EngineJob job;
    job.interfaces = 1;
    const int route = job.add_route({10, 5, shared ? 0 : -1, -1, 0});
    const int first = job.add_signal();
    const int second = job.add_signal();
    const int a = job.add_transfer(route, 10, first);
    const int b = job.add_transfer(route, 20, second);
    job.send(a);
    job.send(b);
    job.end_process();
    Engine engine;
    const EngineTimes& times = engine.play(job);
    EXPECT_DOUBLE_EQ(times.fired[0], 1 + 5);
    EXPECT_DOUBLE_EQ(times.fired[1], 3 + 5);
    EXPECT_DOUBLE_EQ(times.on_the_wire[1], 1);
  }
}

// 100 B at 10 B/s. Blocking: until the last byte has left, not until it arrives. A buffer of 30 B:
// 3 s earlier. A second message finds 30 B left and needs them and its own to fall to 30.
TEST(Engine, SendsBlockUntilWhatIsLeftFits) {
  for (const bool shared : {false, true}) {
    EngineJob job;
    job.interfaces = 1;
    const int route = job.add_route({10, 5, shared ? 0 : -1, -1, 0, 30});
    const int messages[] = {job.add_transfer(route, 100, job.add_signal()),
                            job.add_transfer(route, 100, -1), job.add_transfer(route, 10, -1),
                            job.add_transfer(route, 50, job.add_signal())};
    job.send(messages[0], SendMode::buffered);
    job.send(messages[1], SendMode::buffered);
    job.compute(2);
    job.send(messages[2], SendMode::buffered);  // 10 left and 10: fits
    job.send(messages[3], SendMode::blocking);
    job.end_process();
    Engine engine;
    const EngineTimes& times = engine.play(job);
    const std::vector<double> ends{7, 17, 19, 19, 26};
    for (std::size_t i = 0; i < ends.size(); ++i) EXPECT_DOUBLE_EQ(times.end[i], ends[i]) << i;
    EXPECT_DOUBLE_EQ(times.fired[0], 15);
    EXPECT_DOUBLE_EQ(times.fired[1], 31);
  }
}

// A signal of two counts starts a transfer at the later one; a question takes there and back.
TEST(Engine, SignalsStartTransfersAndAnswerQuestions) {
  EngineJob job;
  const int complete = job.add_signal(2);
  const int answer = job.add_signal();
  const int route = job.add_route({10, 1});
  const int transfer = job.add_transfer(route, 20, answer);
  job.start_on(complete, transfer);
  for (const double seconds : {4.0, 7.0}) {
    job.compute(seconds);
    job.arrive(complete);
    job.ask(complete, 2, 3);  // 4 + 2 < 7, 7 + 2 > 7
    job.wait(answer);
    job.end_process();
  }
  Engine engine;
  const EngineTimes& times = engine.play(job);
  EXPECT_DOUBLE_EQ(times.fired[0], 7);
  EXPECT_DOUBLE_EQ(times.end[2], 10);
  EXPECT_DOUBLE_EQ(times.end[6], 12);
  EXPECT_DOUBLE_EQ(times.end[3], 10);
  EXPECT_DOUBLE_EQ(times.fired[1], 7 + 2 + 1);
}

TEST(Engine, SaysWhoWaitsForEver) {
  EngineJob job;
  job.wait(job.add_signal());
  job.end_process();
  EXPECT_DEATH(Engine().play(job), "process 0 .* waits forever at its operation 0");
}

// Draws by seed, process and operation: equal for equal seeds, near the asked deviation, mean 1.
TEST(Engine, JitterIsDrawnByCounter) {
  constexpr int kOps = 20000;
  EngineJob job;
  for (int i = 0; i < kOps; ++i) job.compute(1);
  job.end_process();
  const auto seconds_of = [&](std::uint64_t seed) {
    Engine engine;
    const EngineTimes times = engine.play(job, {seed, 0.1});
    std::vector<double> seconds;
    for (std::size_t i = 0; i < kOps; ++i) {
      seconds.push_back(times.end[i] - times.start(job, 0, static_cast<std::int64_t>(i)));
    }
    return seconds;
  };
  const auto draws = seconds_of(7);
  EXPECT_EQ(draws, seconds_of(7));
  EXPECT_NE(draws, seconds_of(8));
  double sum = 0;
  double squares = 0;
  for (const double d : draws) sum += d;
  for (const double d : draws) squares += (d - 1) * (d - 1);
  EXPECT_NEAR(sum / kOps, 1, 0.003);
  EXPECT_NEAR(std::sqrt(squares / kOps), 0.1, 0.002);
}

// Random jobs: a program that a single process could run in the order in which it was drawn, so
// nobody waits forever; its operations are dealt to a few processes.
struct Draw {
  std::mt19937 random;
  explicit Draw(unsigned seed) : random(seed) {}
  int below(int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); }
  double real(double most) { return most * std::generate_canonical<double, 53>(random); }
};

EngineJob random_job(unsigned seed) {
  Draw draw(seed);
  EngineJob job;
  const int processes = 2 + draw.below(4);
  const int nodes = 1 + draw.below(3);
  job.interfaces = 2 * nodes;
  const auto node_of = [&](int process) { return process % nodes; };
  const auto route_between = [&](int from, int to, int process) {
    const bool same = node_of(from) == node_of(to);
    return job.add_route({1 + draw.real(9), draw.below(2) * draw.real(1),
                          same ? -1 : 2 * node_of(from), same ? -1 : 2 * node_of(to) + 1, process,
                          draw.real(20)});
  };
  std::vector<std::vector<int>> own(static_cast<std::size_t>(processes));
  std::vector<int> common;
  for (int from = 0; from < processes; ++from) {
    for (int to = 0; to < processes; ++to) {
      if (from == to) continue;
      own[static_cast<std::size_t>(from)].push_back(route_between(from, to, from));
      if (draw.below(3) == 0) common.push_back(route_between(from, to, -1));
    }
  }
  std::vector<std::vector<Op>> programs(static_cast<std::size_t>(processes));
  std::vector<int> known;  // signals that all counts of which stand earlier in the program
  for (int step = 0, steps = 10 + draw.below(50); step < steps; ++step) {
    const auto process = static_cast<std::size_t>(draw.below(processes));
    std::vector<Op>& program = programs[process];
    const auto any = [&](const std::vector<int>& of) {
      return of[static_cast<std::size_t>(draw.below(static_cast<int>(of.size())))];
    };
    const int what = draw.below(8);
    if (what < 2) {
      program.push_back({draw.real(5), -1, OpKind::compute});
    } else if (what < 5) {
      const int signal = job.add_signal();
      const double bytes = draw.below(10) == 0 ? 0 : draw.real(40);
      const int transfer = job.add_transfer(any(own[process]), bytes, signal);
      program.push_back({0, transfer, OpKind::send, static_cast<SendMode>(draw.below(3))});
      known.push_back(signal);
    } else if (what < 7) {
      if (known.empty()) continue;
      if (draw.below(4) == 0) {
        job.questions.push_back({any(known), draw.real(1), draw.real(1)});
        program.push_back({0, static_cast<int>(job.questions.size()) - 1, OpKind::ask});
      } else {
        program.push_back({0, any(known), OpKind::wait});
      }
    } else {
      // Everybody arrives, which starts some transfers (as a collective or an answer does).
      const int joined = job.add_signal(processes);
      for (auto& p : programs) p.push_back({0, joined, OpKind::arrive});
      const int transfers = common.empty() ? 0 : draw.below(4);
      const int done = job.add_signal(std::max(1, transfers));
      for (int i = 0; i < transfers; ++i) {
        job.start_on(joined, job.add_transfer(any(common), draw.real(40), done));
      }
      if (transfers > 0) known.push_back(done);
      known.push_back(joined);
      if (draw.below(2) == 0) continue;
      const int both = job.add_signal(transfers > 0 ? 2 : 1);
      job.count_on(joined, both);
      if (transfers > 0) {
        job.count_on(done, both);
        const int last = job.add_signal();
        job.start_on(both, job.add_transfer(any(common), draw.real(40), last));
        known.push_back(last);
      }
      known.push_back(both);
    }
  }
  for (const auto& program : programs) {
    job.ops.insert(job.ops.end(), program.begin(), program.end());
    job.end_process();
  }
  return job;
}

TEST(Engine, EqualsTheNaiveEngineOnRandomJobs) {
  Engine engine;  // one for all, as planners use it
  for (unsigned seed = 0; seed < 1000; ++seed) {
    const EngineJob job = random_job(seed);
    const EngineTimes& times = engine.play(job);
    const test::NaiveTimes naive = test::play_naively(job);
    for (int p = 0; p < static_cast<int>(job.end.size()); ++p) {
      for (std::int64_t op = job.first_op(p); op < job.end[static_cast<std::size_t>(p)]; ++op) {
        const auto i = static_cast<std::size_t>(op);
        ASSERT_NEAR(times.start(job, p, op), naive.start[i], 1e-7) << "job " << seed << " " << i;
        ASSERT_NEAR(times.end[i], naive.end[i], 1e-7) << "job " << seed << " operation " << i;
      }
    }
    for (std::size_t i = 0; i < job.signals.size(); ++i) {
      ASSERT_NEAR(times.fired[i], naive.fired[i], 1e-7) << "job " << seed << " signal " << i;
    }
  }
}

}  // namespace engine_test
}  // namespace hetpipe
