// SPDX-License-Identifier: Apache-2.0
#include "launch/train/session.h"

#include <cstdio>
#include <filesystem>

#include "base/cache.h"
#include "base/file.h"
#include "base/text.h"
#include "launch/command/terminal.h"
#include "launch/launcher/launched.h"
#include "launch/train/start.h"
#include "runtime/store/trace.h"
#include "runtime/training/run.h"
#include "runtime/training/stop.h"
#include "runtime/training/training_data.h"

namespace hetpipe {

OpenData data_of(const TrainOptions& options, const TrainJob& job) {
  return [of = TrainingData{job.model, *options.data, options.test_share,
                            image_rules(options.samples, options.seed)},
          train = job.dataset_fingerprint, test = job.test_fingerprint](Split split, Parts parts) {
    Dataset data = open_training_data(of, split, parts);
    if (data.fingerprint != (split == Split::train ? train : test)) {
      throw UserError(
          "--data " + of.data,
          format("has different %s samples from those of rank 0 (all ranks train on the "
                 "same ones). Give every rank the same files, and do not change them "
                 "during a run.",
                 split_name(split)));
    }
    return data;
  };
}

void greet(const TrainCall& call, const Preparation& prepared, const Roles& roles,
           const std::vector<RankFacts>& facts, const std::vector<RankDevice>& devices,
           const std::string& transport, Log& log) {
  const TrainJob& job = prepared.job;
  log.line(format("hetpipe trains %s on %lld samples (%lld for testing) with %zu ranks over %s",
                  job.plan.model.c_str(), static_cast<long long>(job.dataset_size),
                  static_cast<long long>(job.test_size), facts.size(), transport.c_str()));
  log.line(banner(job, roles, facts, devices));
  const std::string on_cpu = left_to_the_cpu(devices);
  if (!on_cpu.empty()) log.line(on_cpu);
  const std::string otherwise = not_as_planned(job, roles, devices);
  if (!otherwise.empty()) log.warning(otherwise);
  const std::string other_cards = cards_of_other_kinds(job, roles, devices);
  if (!other_cards.empty()) log.warning(other_cards);
  for (const std::string& note : prepared.notes) log.line(note);
  const std::string shared = shared_cores(facts, roles, job);
  if (!shared.empty()) log.warning(shared);
  const std::string links = links_without_time(job, roles);
  if (!links.empty()) log.warning(links);
  const std::string unlike = unlike_replicas(job, roles, devices);
  if (!unlike.empty()) log.warning(unlike);
  if (launcher_recovers()) log.warning(kRecoversText);
  if (!prepared.table.empty()) log.line(prepared.table);
  if (!call.recipe.empty()) log.line(call.recipe);
  log.line("run directory: " + prepared.directory->path().string());
  if (!job.start.checkpoint.empty()) {
    const std::string inside =
        job.start.inside == 0 ? ""
                              : format(" and %d of %lld minibatches of the next", job.start.inside,
                                       static_cast<long long>(job.plan.wave_length()));
    log.line(format("resuming from %s: after wave %lld%s, %lld samples consumed; %s",
                    job.start.checkpoint.c_str(), static_cast<long long>(job.start.label),
                    inside.c_str(), static_cast<long long>(job.start.consumed),
                    prepared.resumed.c_str()));
    if (!call.changed.empty()) log.line(call.changed);
  }
}

Log log_of(const TrainOptions& options, Rank rank) {
  const bool first = rank == Rank{0};
  return {first ? (options.json ? stderr : stdout) : nullptr, stderr,
          first && !options.json && people_watch() ? Log::Terminal::yes : Log::Terminal::no};
}

void close_run(const TrainCall& call, const TrainJob& job, int ranks, const RunEnd& end,
               const Preparation& prepared, Log& log) {
  const Reporter::Outcome& outcome = end.outcome;
  if (!job.trace_folder.empty()) {
    std::vector<std::filesystem::path> files;
    for (int r = 0; r < ranks; ++r) {
      files.push_back(format("%s/rank-%d.h5", job.trace_folder.c_str(), r));
    }
    write_trace_master(std::filesystem::path(job.trace_folder) / "trace.h5", files);
  }
  log.line(summary(job, outcome));
  const std::string result = result_json(job, end);
  try {
    write_file(prepared.directory->result(), result);
  } catch (const SystemError& error) {
    log.warning(std::string(error.what()) + "; the run's result is only in its log");
  }
  if (call.options.json) std::fputs(result.c_str(), stdout);
  const std::string directory = prepared.directory->path().string();
  log.line("files of this run: " + directory);
  if (end.code == ExitCode::numerical) {
    log.warning(
        "the final state was not saved: " + outcome.not_written +
        " (the learning rate may be too high). Lower --learning-rate, and continue from the "
        "newest checkpoint with --resume " +
        directory + ".");
  } else if (end.code == ExitCode::system) {
    log.warning("the final state was not saved: " + outcome.not_written +
                ". Make room, then continue from the newest checkpoint with --resume " + directory +
                ".");
  } else if (outcome.stopped_at_target) {
    log.line(
        format("stopped after wave %lld: the target was reached. To train further, run again with "
               "--resume %s",
               static_cast<long long>(*outcome.stopped), directory.c_str()));
  } else if (end.code == ExitCode::stopped) {
    log.line(format("stopped on request after wave %lld. Run again with --resume %s",
                    static_cast<long long>(*outcome.stopped), directory.c_str()));
  }
}

// Ranks as threads of this process.
TrainEnd train_in_threads(const TrainCall& call) {
  Log log = log_of(call.options, Rank{0});
  // As many threads as the plan needs: the number of ranks cannot be wrong.
  Preparation prepared = prepare_training(call.options, std::nullopt, call.command, log);
  if (!prepared.ended.empty()) {
    log.line(prepared.ended);
    return {};
  }
  const TrainJob& job = prepared.job;
  const int ranks = job.plan.worker_ranks() + job.plan.server_ranks();
  const std::vector<RankFacts> facts(static_cast<std::size_t>(ranks), facts_of_this_rank());
  const Roles roles = decide_roles(job, facts, call.command);
  check_together(facts, roles, job, call.command);
  std::vector<RankDevice> devices;
  for (int r = 0; r < ranks; ++r) {
    devices.push_back(device_of_rank(job, roles, hosts_of(facts), Rank{r}));
  }
  take_run_directory(call.options, call.configuration, prepared, log);
  greet(call, prepared, roles, facts, devices, "threads of one process", log);

  const StopSignals signals;
  const RunEnd end = train_as_threads(job, roles, data_of(call.options, job), facts.front().host,
                                      log, StopSignals::wanted, plan_cache());
  close_run(call, job, ranks, end, prepared, log);
  return {static_cast<int>(end.code), prepared.directory->path()};
}

}  // namespace hetpipe
