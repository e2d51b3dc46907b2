// SPDX-License-Identifier: Apache-2.0
// Table push-pull: what the parameter server moves per second against MPI itself, between the same
// ranks in the same run.
//   mpirun -n WORKERS+SERVERS bench_push_pull [--smallest] RAW.json WORKERS SERVERS MEBIBYTES
#include <algorithm>
#include <cstdio>
#include <numeric>
#include <optional>
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
  double adding = 0;                  // the servers' passes over memory for a push, and no messages
};

struct Job {
  int workers = 1;
  int servers = 1;
  std::int64_t edge = 0;  // of each shard's one layer
  int rounds = 21;        // the first is left out
  bool in_place = true;   // where ranks reach each other's memory
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

std::vector<std::string> same_machine(const Transport& transport) {
  return std::vector<std::string>(at(transport.ranks()), "this");
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

// A label as a server forms it of all workers' pushes, which are there.
class Adding {
 public:
  Adding(const Job& job, SharedBlocks& blocks)
      : count_(job.edge * job.edge), whole_{{0, count_}}, workers_(job.workers) {
    for (int i = 0; i < workers_ + 2; ++i) {
      arrays_.push_back(blocks.take(count_));
      std::fill_n(arrays_.back().get(), count_, 0.25f);
    }
  }
  double seconds() const {
    const std::int64_t start = now_ns();
    std::vector<LabelSum::Contributor> contributors(at(workers_));
    for (auto& contributor : contributors) contributor.parts.emplace_back(whole_.front());
    LabelSum sum(array(0), array(1), std::move(contributors), LabelSum::By::caller);
    for (int i = 0; i < workers_; ++i) sum.arrived(at(i), 0, {array(2 + i).data(), whole_}, count_);
    while (!sum.add(count_)) {
    }
    return seconds_between(start, now_ns());
  }

 private:
  std::span<float> array(int i) const { return {arrays_[at(i)].get(), at(count_)}; }
  std::int64_t count_;
  std::vector<FlatRange> whole_;
  int workers_;
  std::vector<std::shared_ptr<float>> arrays_;  // before, next, pushes
};

class WorkerSide {
 public:
  WorkerSide(const Job& job, int self, const Model& model, const ShardMap& map,
             const WaveRules& rules, RankService& service, SharedBlocks& blocks)
      : service_(service),
        blocks_(blocks),
        device_(make_device("cpu", 1)),
        stream_(device_->make_stream()),
        stage_(model, {model.layer_count()}, StageId{0}, 1, *device_, *stream_),
        parts_(server_ranks(job).front(), 0, service),
        transport_(service.transport(), *device_, *stream_),
        gates_(service),
        client_(VirtualWorkerId{self}, stage_, rules, map, server_ranks(job), no_checkpoints(),
                parts_, transport_, service, gates_, blocks) {}

  // A wave's update, made before the round: the server adds it to its weights.
  void make_sum() {
    const std::int64_t count = stage_.parameters().count();
    const auto memory = blocks_.take(count);  // as a worker's sums
    Buffer sum(*device_, *stream_, reinterpret_cast<std::byte*>(memory.get()), at(count) * 4,
               MemoryKind::messages, memory);
    device_->fill(*stream_, sum.as<float>(), 0.25f, count);
    sum_ = std::make_shared<const Buffer>(std::move(sum));
  }

  // The push is over when all servers have formed the label: what was sent in pieces must have
  // arrived for the clock's grant, what was shown has been added then.
  void push_then_pull(Wave wave, Round& round) {
    const std::int64_t start = now_ns();
    client_.push(wave, std::move(sum_), {});
    const Label label = client_.pass_gate(wave + 1);
    service_.wait([this] { return client_.all_pushed(); }, [] { return std::string("a push"); });
    const std::int64_t pushed = now_ns();
    check(client_.pull(wave + 1, label, WithStatistics::no, WeightsFor::training));
    round.push = seconds_between(start, pushed);
    round.pull = seconds_between(pushed, now_ns());
  }
  void cycle(Wave wave, Round& round) {
    const std::int64_t start = now_ns();
    client_.push(wave, std::move(sum_), {});
    client_.prefetch(wave + 1, wave + 1);
    check(client_.pull(wave + 1, client_.pass_gate(wave + 1), WithStatistics::no,
                       WeightsFor::training));
    round.cycle = seconds_between(start, now_ns());
  }

 private:
  // Every worker pushes a quarter per wave.
  void check(const StageSnapshot& snapshot) const {
    const float* w = snapshot.weights.as<float>();
    const auto last = static_cast<std::size_t>(stage_.parameters().count()) - 1;
    if (w[0] != w[last] || w[0] <= 0) throw SystemError("a snapshot without the pushed updates");
  }

  RankService& service_;
  SharedBlocks& blocks_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  Stage stage_;
  CheckpointSender parts_;
  DeviceTransport transport_;
  GateLabels gates_;
  ServerClient client_;
  std::shared_ptr<const Buffer> sum_;
};

std::unique_ptr<ParameterServer> make_server(const Job& job, int self, const Model& model,
                                             const ShardMap& map, const WaveRules& rules,
                                             RankService& service, SharedBlocks& blocks) {
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
  return std::make_unique<ParameterServer>(std::move(setup), rules, map, service, blocks);
}

// All workers' rounds by round: a round lasts as long as its slowest worker.
std::vector<Round> slowest(Transport& transport, const std::vector<Round>& mine) {
  std::vector<Round> result(mine.size());
  for (const auto& bytes : transport.exchange(std::as_bytes(std::span(mine)))) {
    const auto* rounds = reinterpret_cast<const Round*>(bytes.data());
    for (std::size_t r = 0; r < result.size(); ++r) {
      for (double Round::*part : {&Round::push, &Round::pull, &Round::cycle, &Round::raw_push,
                                  &Round::raw_pull, &Round::adding}) {
        result[r].*part = std::max(result[r].*part, rounds[r].*part);
      }
    }
  }
  return result;
}

void print(const Job& job, std::vector<Round> rounds, const std::string& raw_path) {
  rounds.erase(rounds.begin());
  RawValues raw(raw_path);
  const auto values_of = [&](auto seconds_of) {
    std::vector<double> values;
    for (const Round& r : rounds) values.push_back(seconds_of(r));
    return values;
  };
  // `bound`: what the same would take without messages; none where it is empty.
  const auto line = [&](const char* what, const std::vector<double>& ours,
                        const std::vector<double>& theirs, const std::vector<double>& bound,
                        int directions) {
    raw.add(std::string(what) + ", hetpipe, s", ours);
    raw.add(std::string(what) + ", MPI, s", theirs);
    if (!bound.empty()) raw.add(std::string(what) + ", adding alone, s", bound);
    const double bytes = static_cast<double>(job.bytes()) * job.workers * directions;
    const auto bandwidth = [&](std::vector<double> seconds) {
      for (double& s : seconds) s = bytes / s / 1e9;
      return to_string(spread_of(seconds), "%.2f");
    };
    const Spread ratio = spread_of(ratios(theirs, ours));
    const Spread of_bound = bound.empty() ? Spread() : spread_of(ratios(bound, ours));
    const bool bus = !bound.empty() && spread_of(ratios(theirs, bound)).median < 1;
    std::printf("| %d + %d | %lld MiB | %s | %s | %s | %s | %s | %s | %s |\n", job.workers,
                job.servers, static_cast<long long>(job.bytes() >> 20), what,
                bandwidth(ours).c_str(), bandwidth(theirs).c_str(),
                bound.empty() ? "" : bandwidth(bound).c_str(), to_string(ratio, "%.3f").c_str(),
                bound.empty() ? "" : to_string(of_bound, "%.3f").c_str(),
                ratio.median >= kGoal             ? "yes"
                : bus && of_bound.median >= kGoal ? "of memory"
                                                  : "no");
  };
  const std::vector<double> adding = values_of([](const Round& r) { return r.adding; });
  line("push", values_of([](const Round& r) { return r.push; }),
       values_of([](const Round& r) { return r.raw_push; }), adding, 1);
  line("pull", values_of([](const Round& r) { return r.pull; }),
       values_of([](const Round& r) { return r.raw_pull; }), {}, 1);
  line("push and pull", values_of([](const Round& r) { return r.cycle; }),
       values_of([](const Round& r) { return r.raw_push + r.raw_pull; }), {}, 2);
}

void run(Transport& transport, const Job& job, const std::string& raw_path) {
  const int self = transport.rank().value;
  RawMpi raw;
  RankService service(transport, kTimeout);
  service.set_alertness(Alertness::close);  // as beside a device: what is measured is not its sleep
  SharedBlocks blocks(service, job.in_place ? ranks_in_reach(transport, same_machine(transport))
                                            : std::vector<bool>());
  const Model model = make_job_model(job);
  const ShardMap map = make_map(job, model);
  const WaveRules rules = make_rules(job);
  std::unique_ptr<ParameterServer> server;
  std::unique_ptr<WorkerSide> worker;
  if (job.is_server(self)) {
    server = make_server(job, self, model, map, rules, service, blocks);
    service.also_poll([&] { server->poll(); });
  } else {
    worker = std::make_unique<WorkerSide>(job, self, model, map, rules, service, blocks);
  }
  // The same kind of memory as the product's.
  std::vector<float> floats = huge_floats(static_cast<std::size_t>(job.shard_bytes()) / 4 *
                                          at(std::max(job.workers, job.servers)));
  const std::span<std::byte> memory = std::as_writable_bytes(std::span(floats));
  transport.exchange({});

  // Without keeping a core busy.
  const auto wait_for_signals = [&](int first, int ranks) {
    int next = 0;
    service.wait(
        [&] {
          while (next < ranks && raw.try_signal(first + next)) ++next;
          return next == ranks;
        },
        [] { return std::string("the others' part of the round"); });
  };
  // The workers' signals tell a server that a wave is over.
  const auto wave = [&](const auto& on_worker) {
    if (worker) worker->make_sum();
    raw.barrier();
    if (worker) {
      on_worker();
      for (int s = 0; s < job.servers; ++s) raw.signal(job.workers + s);
      return;
    }
    wait_for_signals(0, job.workers);
  };
  std::optional<Adding> adding;
  if (server) adding.emplace(job, blocks);
  std::vector<Round> rounds(at(job.rounds));
  for (int r = 0; r < job.rounds; ++r) {
    Round& round = rounds[at(r)];
    wave([&] { worker->push_then_pull(kKinds * r, round); });
    std::tie(round.raw_push, round.raw_pull) = raw_round(job, self, raw, memory);
    wave([&] { worker->cycle(kKinds * r + 1, round); });
    raw.barrier();
    if (adding) {
      round.adding = adding->seconds();
      for (int i = 0; i < job.workers; ++i) raw.signal(i);
    } else {
      wait_for_signals(job.workers, job.servers);
    }
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
