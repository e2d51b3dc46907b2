// SPDX-License-Identifier: Apache-2.0
#include "runtime/training/run.h"

#include <algorithm>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "base/index.h"
#include "base/text.h"
#include "base/time.h"
#include "kernels/devices.h"
#include "runtime/training/clock.h"
#include "runtime/training/messages.h"
#include "runtime/training/paths.h"
#include "runtime/training/server.h"
#include "runtime/training/simulated_time.h"
#include "runtime/training/stop.h"
#include "runtime/training/values.h"
#include "runtime/training/worker_role.h"
#include "runtime/transport/staging.h"
#include "runtime/transport/threads.h"

namespace hetpipe {
namespace {

std::unique_ptr<TraceWriter> open_trace(const TrainJob& job, const Role& role,
                                        const RankSetting& setting) {
  if (job.trace_folder.empty()) return nullptr;
  const int rank = setting.transport.rank().value;
  TraceInfo info{.rank = rank, .host = setting.host, .device = role.node};
  if (role.worker) {
    info.device = to_string(role.worker->device);
    info.virtual_worker = role.worker->virtual_worker.value;
    info.stage = role.worker->stage().value;
    info.replica = role.worker->replica;
  }
  return std::make_unique<TraceWriter>(format("%s/rank-%d.h5", job.trace_folder.c_str(), rank),
                                       info);
}

// Payloads of a rank whose memory the host does not reach go in small pieces, which are on the wire
// while others are copied. Both ends know it of what all ranks have said.
void set_pieces(const RankSetting& setting) {
  const auto staged = [&](int rank) { return !host_reaches(setting.devices[at(rank)].name); };
  const int self = setting.transport.rank().value;
  for (int r = 0; r < setting.transport.ranks(); ++r) {
    if (staged(self) || staged(r)) setting.transport.set_piece_bytes(Rank{r}, kStagedPieceBytes);
  }
}

// Ranks that push, and servers: those whose messages are in host memory at both ends and cross no
// emulated link may read them where they lie.
std::vector<bool> reach_of_servers(const TrainValues& values, const RankSetting& setting) {
  const Roles& roles = setting.roles;
  const int ranks = setting.transport.ranks();
  if (!has_waves(values.job.plan)) return {};
  const LinkTable links =
      values.job.emulates() ? make_link_table(*values.job.cluster, roles) : LinkTable();
  const Rank self = setting.transport.rank();
  const auto pushes = [&](Rank rank) {
    return roles.of_rank[at(rank.value)].worker && setting.ends[at(rank.value)].host_memory;
  };
  const auto serves = [&](Rank rank) { return roles.of_rank[at(rank.value)].shard.has_value(); };
  std::vector<std::string> machines;
  for (int r = 0; r < ranks; ++r) machines.push_back(setting.ends[at(r)].machine);
  std::vector<bool> reach = ranks_in_reach(setting.transport, machines);
  for (int r = 0; r < ranks; ++r) {
    const Rank other{r};
    const bool exchange = (pushes(self) && serves(other)) || (serves(self) && pushes(other));
    const bool emulated =
        values.job.emulates() && (links.link(self, other) || links.link(other, self));
    reach[at(r)] = reach[at(r)] && exchange && !emulated;
  }
  return reach;
}

// What the ranks' paces depend on besides themselves.
std::vector<SlowRanks::Place> places_of(const RankSetting& setting) {
  std::vector<SlowRanks::Place> places;
  for (std::size_t r = 0; r < setting.roles.of_rank.size(); ++r) {
    places.push_back({setting.ends[r].machine, setting.ends[r].device != "cuda"});
  }
  return places;
}

}  // namespace

RunEnd run_rank(const TrainJob& job, const RankSetting& setting) {
  set_pieces(setting);
  TrainValues values(job);
  if (setting.timeline) grant_by(*setting.timeline, values.rules);
  const Rank rank = setting.transport.rank();
  const Role& role = setting.roles.of_rank[at(rank.value)];
  RankService service(setting.transport, job.timeout_seconds, setting.watchers);
  SharedBlocks blocks(service, reach_of_servers(values, setting));
  const std::unique_ptr<TraceWriter> trace = open_trace(job, role, setting);

  std::optional<ExitCode> over;
  service.on<RunOver>([&over](Rank, const RunOver& message) { over = message.code; });
  ClockComparison clocks(service);
  const auto note_clock = [&] {
    const ClockEstimate compared = clocks.compare();
    const ClockEstimate estimate = setting.timeline ? ClockEstimate{} : compared;  // one clock
    if (trace) keep_training(setting.log, [&] { trace->set_clock(estimate); });
  };
  std::unique_ptr<Reporter> reporter;
  if (rank == Rank{0}) {
    reporter = std::make_unique<Reporter>(job, values.rules, values.sampler, setting.roles,
                                          places_of(setting), service, setting.log, trace.get());
  }
  std::unique_ptr<ServerRole> server;
  if (role.shard || rank == setting.roles.coordinator()) {
    server = std::make_unique<ServerRole>(values, role.shard, setting.roles, service, blocks,
                                          setting.log, trace.get());
    service.also_poll([&server] { server->poll(); });
  }
  const auto stop_wanted = [&]() -> std::optional<int> {
    const auto signal = setting.stop_wanted ? setting.stop_wanted() : std::nullopt;
    if (signal || !reporter) return signal;
    if (reporter->target_reached()) return kTargetReached;
    return reporter->rehearsal_due() ? std::optional(kRehearsal) : std::nullopt;
  };
  const StopListener stop(
      service, setting.roles.coordinator(), stop_wanted, [&](const StopAt& stop_at) {
        values.rules.stop_before(stop_at.before);
        if (reporter) {
          reporter->stopping(*values.rules.stopped(), {stop_at.by, stop_at.signal});
        }
      });
  GateLabels gates(service);
  std::optional<ForwardHold> hold;
  if (role.worker) {
    hold.emplace(service, setting.roles.coordinator(), values.rules.start_minibatch());
  }
  confirm_checkpoints(service);
  const std::shared_ptr<PathWords> path_words = collect_path_words(service);
  std::map<Rank, std::string> warm_names;
  for (const Rank of : ranks_of_nccl(values, setting)) {
    warm_names[of] = format("rank %d (%s)", of.value, setting.devices[at(of.value)].text.c_str());
  }
  WarmRanks warm(std::move(warm_names), service);
  std::optional<PathTable> path_table;
  if (rank == Rank{0}) path_table.emplace(reported_pairs(values, setting), setting, service);
  note_clock();  // after all that a faster rank may send messages to
  if (role.worker) {
    run_worker(values, *role.worker, setting, service, blocks,
               {trace.get(), reporter.get(), server ? server->stop() : nullptr, &*hold, &gates,
                path_words, &warm});
  }
  service.begin(role.worker ? "ending" : role.shard ? "serving" : "standing by");
  if (server) {
    service.wait_for_others([&] { return server->finished(); },
                            [&] { return server->waiting_for(); }, "messages from other ranks");
  }
  note_clock();
  if (reporter) {
    service.wait_for_others([&] { return reporter->complete(); },
                            [&] { return reporter->waiting_for(); }, "the last reports");
    const Reporter::Outcome& outcome = reporter->outcome();
    const bool on_request = outcome.stopped && !outcome.stopped_at_target;
    const ExitCode code = outcome.code != ExitCode::done ? outcome.code
                          : on_request                   ? ExitCode::stopped
                                                         : ExitCode::done;
    reporter->ended(exit_word({.code = code, .outcome = outcome}), code);
    service.tell_all(RunOver{.code = code});
  }
  service.wait_for_others([&] { return over.has_value(); },
                          [] { return std::string("rank 0 to close the run"); });
  service.wait([&] { return setting.transport.idle(); },
               [] { return std::string("the last messages to be sent"); });
  if (trace) keep_training(setting.log, [&] { trace->flush(); });
  return {.code = *over, .outcome = reporter ? reporter->outcome() : Reporter::Outcome{}};
}

RunEnd train_as_threads(const TrainJob& job, const Roles& roles, const OpenData& open_data,
                        const std::string& host, Log& log,
                        const std::function<std::optional<int>()>& stop_wanted,
                        const std::string& plan_cache) {
  auto transports = make_threads_transports(static_cast<int>(roles.of_rank.size()));
  if (job.emulates()) {
    const LinkTable links = make_link_table(*job.cluster, roles);
    const auto clock = LinkClock::in_process(links.resources);
    for (auto& transport : transports) transport->emulate_links(links, clock);
  }
  std::vector<RankDevice> devices;
  const std::vector<std::string> hosts(roles.of_rank.size(), host);
  for (std::size_t r = 0; r < hosts.size(); ++r) {
    devices.push_back(device_of_rank(job, roles, hosts, Rank{static_cast<int>(r)}));
  }
  const std::vector<PathEnd> ends =
      path_ends(std::vector<RankFacts>(hosts.size(), facts_of_this_rank()), devices);
  std::vector<FlightRecorder> recorders(transports.size());
  for (FlightRecorder& recorder : recorders) recorder.begin("starting", Doing::long_phase);
  const auto states = [&recorders] {
    std::vector<RankState> all;
    for (const FlightRecorder& recorder : recorders) all.push_back(recorder.state());
    return all;
  };
  std::mutex mutex;
  std::exception_ptr failure;
  RunEnd end;
  const std::shared_ptr<const Timeline> timeline = make_timeline(job);
  std::vector<std::thread> threads;
  for (auto& transport : transports) {
    threads.emplace_back([&] {
      try {
        const Watchers watchers{&recorders[at(transport->rank().value)], nullptr, states};
        RunEnd mine = run_rank(job, {*transport, roles, open_data, host, devices, ends, log,
                                     stop_wanted, plan_cache, watchers, timeline});
        if (transport->rank() == Rank{0}) end = std::move(mine);
      } catch (...) {
        {
          const std::lock_guard lock(mutex);
          if (!failure) failure = std::current_exception();
        }
        transport->abort(static_cast<int>(ExitCode::system));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
  return end;
}

}  // namespace hetpipe
