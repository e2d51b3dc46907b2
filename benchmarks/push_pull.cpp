// SPDX-License-Identifier: Apache-2.0
// Table push-pull: what the parameter server moves per second against MPI itself, between the same
// ranks in the same run.
//   mpirun -n WORKERS+SERVERS bench_push_pull [--smallest] RAW.json WORKERS SERVERS MEBIBYTES
#include <algorithm>
#include <cstdio>
#include <numeric>
#include <string>

#include "base/error.h"
#include "base/huge_pages.h"
#include "base/index.h"
#include "base/text.h"
#include "base/time.h"
#include "benchmarks/raw_mpi.h"
#include "benchmarks/smallest.h"
#include "benchmarks/statistics.h"
#include "kernels/devices.h"
#include "runtime/pipeline/reports.h"
#include "runtime/pipeline/stage.h"
#include "runtime/sync/parameter_server.h"
#include "runtime/sync/server_client.h"
#include "runtime/transport/device_transport.h"
#include "runtime/transport/mpi.h"

namespace hetpipe::bench {
namespace {

constexpr int kKinds = 2;  // of waves in a round
constexpr double kTimeout = 60;
constexpr double kGoal = 0.9;

// What is compared: seconds of one worker in one round.
struct Round {
  double push = 0, pull = 0;          // one after the other
  double cycle = 0;                   // the pull asked for together with the push, as training does
  double raw_push = 0, raw_pull = 0;  // the same bytes by MPI alone
};

struct Job {
  int workers = 1;
  int servers = 1;
  std::int64_t edge = 0;  // of each shard's one layer
  int rounds = 21;        // the first is left out
  std::int64_t shard_bytes() const { return edge * edge * 4; }
  std::int64_t bytes() const { return shard_bytes() * servers; }
  bool is_server(int rank) const { return rank >= workers; }
};

Model make_job_model(const Job& job) {
  Model model("push-pull", {job.edge}, static_cast<int>(job.edge));
  for (int s = 0; s < job.servers; ++s) {
    model.add(format("linear%d", s),
              Linear{.output_features = static_cast<int>(job.edge), .bias = false});
  }
  model.add("loss", SoftmaxCrossEntropy{});
  return model;
}

ShardMap make_map(const Job& job, const Model& model) {
  std::vector<int> shard_of_layer(at(model.layer_count()), -1);
  for (int s = 0; s < job.servers; ++s) shard_of_layer[at(s)] = s;
  return {model, shard_of_layer, job.servers};
}

std::vector<Rank> server_ranks(const Job& job) {
  std::vector<Rank> ranks;
  for (int s = 0; s < job.servers; ++s) ranks.push_back(Rank{job.workers + s});
  return ranks;
}

WaveRules make_rules(const Job& job) {
  WaveRules rules;
  // The run never ends: nothing of the last wave is measured.
  rules.end.assign(at(job.workers), job.rounds * kKinds + 1);
  return rules;
}

CheckpointRule no_checkpoints() {
  CheckpointRule rule;
  rule.enabled = false;
  return rule;
}

// One rank's part of a raw push and pull; the seconds on a worker.
std::pair<double, double> raw_round(const Job& job, int self, RawMpi& raw,
                                    std::span<std::byte> memory) {
  std::vector<std::pair<int, std::span<std::byte>>> parts;
  const int peers = job.is_server(self) ? job.workers : job.servers;
  const int first = job.is_server(self) ? 0 : job.workers;
  const auto bytes = static_cast<std::size_t>(job.shard_bytes());
  for (int i = 0; i < peers; ++i) {
    parts.emplace_back(first + i, memory.subspan(at(i) * bytes, bytes));
  }
  const std::vector<std::pair<int, std::span<const std::byte>>> out(parts.begin(), parts.end());
  raw.barrier();
  const std::int64_t start = now_ns();
  if (job.is_server(self)) {
    raw.receive(parts);
    for (const auto& [worker, part] : parts) raw.signal(worker);
    raw.send(out);
    return {0, 0};
  }
  raw.send(out);
  for (const auto& [server, part] : parts) raw.wait_signal(server);
  const std::int64_t pushed = now_ns();
  raw.receive(parts);
  return {seconds_between(start, pushed), seconds_between(pushed, now_ns())};
}

class WorkerSide {
 public:
  WorkerSide(const Job& job, int self, const Model& model, const ShardMap& map,
             const WaveRules& rules, RankService& service)
      : device_(make_device("cpu", 1)),
        stream_(device_->make_stream()),
        stage_(model, {model.layer_count()}, StageId{0}, 1, *device_, *stream_),
        parts_(server_ranks(job).front(), 0, service),
        transport_(service.transport(), *device_, *stream_),
        client_(VirtualWorkerId{self}, stage_, rules, map, server_ranks(job), no_checkpoints(),
                parts_, transport_, service) {}

  // A wave's update; the server adds it to its weights.
  std::shared_ptr<const Buffer> wave_sum() {
    Buffer sum(*device_, *stream_, static_cast<std::size_t>(stage_.parameters().count()) * 4,
               MemoryKind::messages);
    device_->fill(*stream_, sum.as<float>(), 0.25f, stage_.parameters().count());
    return std::make_shared<const Buffer>(std::move(sum));
  }

  // The clock's grant says that the servers have formed the label: then the push is over.
  void push_then_pull(Wave wave, Round& round) {
    const auto sum = wave_sum();
    const std::int64_t start = now_ns();
    client_.push(wave, sum, {});
    const Label label = client_.pass_gate(wave + 1);
    const std::int64_t pushed = now_ns();
    check(client_.pull(wave + 1, label, WithStatistics::no));
    round.push = seconds_between(start, pushed);
    round.pull = seconds_between(pushed, now_ns());
  }
  void cycle(Wave wave, Round& round) {
    const auto sum = wave_sum();
    const std::int64_t start = now_ns();
    client_.push(wave, sum, {});
    client_.prefetch(wave + 1, wave + 1);
    check(client_.pull(wave + 1, client_.pass_gate(wave + 1), WithStatistics::no));
    round.cycle = seconds_between(start, now_ns());
  }

 private:
  // Every worker pushes a quarter per wave.
  void check(const StageSnapshot& snapshot) const {
    const float* w = snapshot.weights.as<float>();
    const auto last = static_cast<std::size_t>(stage_.parameters().count()) - 1;
    if (w[0] != w[last] || w[0] <= 0) throw SystemError("a snapshot without the pushed updates");
  }

  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  Stage stage_;
  CheckpointSender parts_;
  DeviceTransport transport_;
  ServerClient client_;
};

std::unique_ptr<ParameterServer> make_server(const Job& job, int self, const Model& model,
                                             const ShardMap& map, const WaveRules& rules,
                                             RankService& service) {
  ServerSetup setup;
  setup.shard = ShardId{self - job.workers};
  setup.server_ranks = server_ranks(job);
  for (int i = 0; i < job.workers; ++i) {
    setup.worker_ranks.push_back(std::vector<std::vector<Rank>>{{Rank{i}}});
    setup.stage_end.push_back({model.layer_count()});
  }
  setup.update_factor.assign(at(job.workers), 1.0f);
  ShardSnapshot& first = setup.snapshots.emplace_back();
  first.weights = huge_floats(static_cast<std::size_t>(job.shard_bytes()) / 4);
  setup.running.resize(at(job.workers));
  setup.checkpoints = no_checkpoints();
  return std::make_unique<ParameterServer>(std::move(setup), rules, map, service);
}

// All workers' rounds by round: a round lasts as long as its slowest worker.
std::vector<Round> slowest(Transport& transport, const std::vector<Round>& mine) {
  std::vector<Round> result(mine.size());
  for (const auto& bytes : transport.exchange(std::as_bytes(std::span(mine)))) {
    const auto* rounds = reinterpret_cast<const Round*>(bytes.data());
    for (std::size_t r = 0; r < result.size(); ++r) {
      for (double Round::*part :
           {&Round::push, &Round::pull, &Round::cycle, &Round::raw_push, &Round::raw_pull}) {
        result[r].*part = std::max(result[r].*part, rounds[r].*part);
      }
    }
  }
  return result;
}

void print(const Job& job, std::vector<Round> rounds, const std::string& raw_path) {
  rounds.erase(rounds.begin());
  RawValues raw(raw_path);
  const auto line = [&](const char* what, auto ours_of, auto raw_of, int directions) {
    std::vector<double> ours, theirs;
    for (const Round& r : rounds) {
      ours.push_back(ours_of(r));
      theirs.push_back(raw_of(r));
    }
    raw.add(std::string(what) + ", hetpipe, s", ours);
    raw.add(std::string(what) + ", MPI, s", theirs);
    const double bytes = static_cast<double>(job.bytes()) * job.workers * directions;
    const auto bandwidth = [&](std::vector<double> seconds) {
      for (double& s : seconds) s = bytes / s / 1e9;
      return to_string(spread_of(seconds), "%.2f");
    };
    const Spread ratio = spread_of(ratios(theirs, ours));
    std::printf("| %d + %d | %lld MiB | %s | %s | %s | %s | %s |\n", job.workers, job.servers,
                static_cast<long long>(job.bytes() >> 20), what, bandwidth(ours).c_str(),
                bandwidth(theirs).c_str(), to_string(ratio, "%.3f").c_str(),
                ratio.median >= kGoal ? "yes" : "no");
  };
  line(
      "push", [](const Round& r) { return r.push; }, [](const Round& r) { return r.raw_push; }, 1);
  line(
      "pull", [](const Round& r) { return r.pull; }, [](const Round& r) { return r.raw_pull; }, 1);
  line(
      "push and pull", [](const Round& r) { return r.cycle; },
      [](const Round& r) { return r.raw_push + r.raw_pull; }, 2);
}

void run(Transport& transport, const Job& job, const std::string& raw_path) {
  const int self = transport.rank().value;
  RawMpi raw;
  RankService service(transport, kTimeout);
  const Model model = make_job_model(job);
  const ShardMap map = make_map(job, model);
  const WaveRules rules = make_rules(job);
  std::unique_ptr<ParameterServer> server;
  std::unique_ptr<WorkerSide> worker;
  if (job.is_server(self)) {
    server = make_server(job, self, model, map, rules, service);
    service.also_poll([&] { server->poll(); });
  } else {
    worker = std::make_unique<WorkerSide>(job, self, model, map, rules, service);
  }
  // The same kind of memory as the product's.
  std::vector<float> floats = huge_floats(static_cast<std::size_t>(job.shard_bytes()) / 4 *
                                          at(std::max(job.workers, job.servers)));
  const std::span<std::byte> memory = std::as_writable_bytes(std::span(floats));
  transport.exchange({});

  // The workers' signals tell a server that a wave is over.
  const auto wave = [&](const auto& on_worker) {
    raw.barrier();
    if (worker) {
      on_worker();
      for (int s = 0; s < job.servers; ++s) raw.signal(job.workers + s);
      return;
    }
    int waiting = 0;
    service.wait(
        [&] {
          while (waiting < job.workers && raw.try_signal(waiting)) ++waiting;
          return waiting == job.workers;
        },
        [] { return std::string("the workers' waves"); });
  };
  std::vector<Round> rounds(at(job.rounds));
  for (int r = 0; r < job.rounds; ++r) {
    Round& round = rounds[at(r)];
    wave([&] { worker->push_then_pull(kKinds * r, round); });
    std::tie(round.raw_push, round.raw_pull) = raw_round(job, self, raw, memory);
    wave([&] { worker->cycle(kKinds * r + 1, round); });
  }
  const std::vector<Round> together = slowest(transport, rounds);
  if (self == 0) print(job, together, raw_path);
}

}  // namespace
}  // namespace hetpipe::bench

int main(int argc, char** argv) {
  using namespace hetpipe;
  MpiSession session(&argc, &argv);
  bench::Job job;
  if (bench::take_smallest(argc, argv)) job.rounds = 2;
  std::int64_t mebibytes = 0;
  if (argc == 5) {
    job.workers = std::atoi(argv[2]);
    job.servers = std::atoi(argv[3]);
    mebibytes = std::atoll(argv[4]);
  }
  if (job.workers < 1 || job.servers < 1 || mebibytes < 1 ||
      job.workers + job.servers != session.ranks()) {
    if (session.rank() == Rank{0}) {
      std::fprintf(stderr,
                   "usage: mpirun -n WORKERS+SERVERS bench_push_pull [--smallest] RAW.json WORKERS "
                   "SERVERS MEBIBYTES\n");
    }
    return 2;
  }
  // The nearest square layer per shard.
  while (4 * job.edge * job.edge * job.servers < (mebibytes << 20)) ++job.edge;
  const auto transport = session.make_transport();
  try {
    bench::run(*transport, job, argv[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d: %s\n", session.rank().value, error.what());
    transport->abort(3);
  }
  return 0;
}
