// SPDX-License-Identifier: Apache-2.0
#include "launch/train/prepare.h"

#include <filesystem>

#include "base/file.h"
#include "base/text.h"
#include "launch/train/ground.h"
#include "launch/train/prepare_parts.h"
#include "launch/train/start.h"
#include "partitioner/plan/plan_table.h"
#include "partitioner/plan/unmeasured.h"
#include "runtime/training/rates.h"

namespace hetpipe {

namespace fs = std::filesystem;

Preparation prepare_training(const TrainOptions& asked, std::optional<int> ranks,
                             const std::string& launch_command, Log& log, const Ground* ground) {
  check_monitored_files(asked);
  const Given given = read_given(asked, ground, log);
  const TrainOptions& options = given.options;
  Preparation prepared;
  if (ground != nullptr) prepared.notes = ground->notes;
  TrainJob& job = prepared.job = given.job;

  check_profile(given);
  job.plan = decide_plan(given, ground);
  check_plan_of(job, given);
  job.plan.model = given.model.name();
  check_ranks(job, ranks, launch_command);

  job.optimizer = decide_optimizer(options, job.plan);
  const std::string note = note_on_rate(options, job.plan);
  if (!note.empty()) prepared.notes.push_back(note);
  take_options(options, job);
  job.recipe = recipe_hash(options, job);
  const Resumption resumption = decide_resumption(options, job);
  prepared.ended = resumption.ended;
  if (!prepared.ended.empty()) return prepared;
  job.start = resumption.start;
  prepared.resumed = resumption.how;
  prepared.damaged = resumption.damaged;
  check_training(job, given, resumption);
  job.time = simulated_time(options.clock, job);

  job.optimizer.schedule = rate_schedule(decide_rates(options, job.plan), job);
  if (job.cluster && job.profile) {
    prepared.table = plan_table(job.plan, *job.cluster, *job.profile) +
                     unmeasured_text(unmeasured_times(job.plan, *job.cluster, *job.profile));
  }
  return prepared;
}

namespace {

MonitoredFiles monitored_files(const TrainOptions& options, const RunDirectory& directory) {
  const fs::path run = fs::absolute(directory.path()).lexically_normal();
  MonitoredFiles files{.status = (run / directory.status().filename()).string(),
                       .metrics = options.metrics.value_or(""),
                       .tensorboard = {}};
  std::error_code ignored;
  fs::remove(files.status, ignored);  // of the run that is resumed
  if (!options.tensorboard) return files;
  // TensorBoard calls each folder of event files a run.
  const fs::path name = run.has_filename() ? run.filename() : run.parent_path().filename();
  const fs::path folder = fs::path(*options.tensorboard) / name;
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw SystemError("cannot create " + folder.string() + ": " + error.message());
  files.tensorboard = folder.string();
  return files;
}

}  // namespace

void take_run_directory(const TrainOptions& options, const std::string& configuration,
                        Preparation& prepared, Log& log) {
  TrainJob& job = prepared.job;
  prepared.directory.emplace(
      options.output ? fs::path(*options.output) : RunDirectory::default_path(job.plan.model),
      options.resume ? RunStart::resume : RunStart::fresh);
  const RunDirectory& directory = *prepared.directory;
  write_file(directory.config(), configuration);
  write_file(directory.plan(), to_toml(job.plan));
  if (job.cluster) write_file(directory.cluster(), to_toml(*job.cluster));
  if (job.profile) write_file(directory.profile(), to_toml(*job.profile));
  job.checkpoint_folder = directory.checkpoints().string();
  job.monitored = monitored_files(options, directory);
  if (options.trace) {
    job.trace_folder = directory.create_trace_folder(job.start.label, job.start.inside).string();
  }
  log.open_file(directory.log().string());
  for (const auto& [file, why] : prepared.damaged) {
    log.warning(file + ": " + why);
    std::string said = file + " is damaged and was passed over";
    if (fs::path(file).parent_path() == directory.checkpoints()) {
      // Out of the way: pruning keeps the newest checkpoints.
      fs::rename(file, file + ".damaged");
      said += "; it is now " + file + ".damaged";
    }
    log.warning(said);
  }
}

}  // namespace hetpipe
