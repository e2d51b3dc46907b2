// SPDX-License-Identifier: Apache-2.0
#include "launch/train_session.h"

#include <filesystem>

#include "base/text.h"
#include "launch/terminal.h"
#include "launch/train_threads.h"
#include "runtime/store/open_dataset.h"
#include "runtime/store/trace.h"

namespace hetpipe {

OpenData data_of(const TrainOptions& options) {
  return
      [spec = *options.data](Split split, Parts parts) { return open_dataset(spec, split, parts); };
}

void greet(const Preparation& prepared, const Roles& roles, const std::vector<RankFacts>& facts,
           const std::string& transport, Log& log) {
  const TrainJob& job = prepared.job;
  log.line(format("hetpipe trains %s on %lld samples (%lld for testing) with %zu ranks over %s",
                  job.model.c_str(), static_cast<long long>(job.dataset_size),
                  static_cast<long long>(job.test_size), facts.size(), transport.c_str()));
  log.line(banner(job, roles, facts));
  if (!prepared.table.empty()) log.line(prepared.table);
  log.line("run directory: " + prepared.directory->path().string());
  if (!job.start.checkpoint.empty()) {
    log.line(format("resuming from %s: label %lld, %lld samples consumed",
                    job.start.checkpoint.c_str(), static_cast<long long>(job.start.label),
                    static_cast<long long>(job.start.consumed)));
  }
}

void close_run(const TrainJob& job, const Reporter::Outcome& outcome, const Preparation& prepared,
               Log& log) {
  if (!job.trace_folder.empty()) {
    std::vector<std::filesystem::path> files;
    const int ranks = job.plan.worker_ranks() + job.plan.server_ranks();
    for (int r = 0; r < ranks; ++r) {
      files.push_back(format("%s/rank-%d.h5", job.trace_folder.c_str(), r));
    }
    write_trace_master(std::filesystem::path(job.trace_folder) / "trace.h5", files);
  }
  log.line(summary(job, outcome));
  log.line("everything of this run: " + prepared.directory->path().string());
}

// Ranks as threads of this process.
int train_in_threads(const TrainCall& call) {
  Log log(stdout, stderr, people_watch() ? Log::Terminal::yes : Log::Terminal::no);
  // As many threads as the plan needs: the number of ranks cannot be wrong.
  const Preparation prepared =
      prepare_training(call.options, call.configuration, std::nullopt, call.command, log);
  const TrainJob& job = prepared.job;
  const int ranks = job.plan.worker_ranks() + job.plan.server_ranks();
  const std::vector<RankFacts> facts(static_cast<std::size_t>(ranks), facts_of_this_rank());
  const Roles roles = decide_roles(job, facts);
  greet(prepared, roles, facts, "threads of one process", log);

  const Reporter::Outcome outcome =
      train_as_threads(job, roles, data_of(call.options), facts.front().host, log);
  close_run(job, outcome, prepared, log);
  return 0;
}

}  // namespace hetpipe
