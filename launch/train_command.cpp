// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <exception>
#include <filesystem>

#include "base/text.h"
#include "launch/launched.h"
#include "launch/shell_words.h"
#include "launch/subcommand.h"
#include "launch/terminal.h"
#include "launch/train_run.h"
#include "launch/train_start.h"
#include "launch/train_threads.h"
#include "runtime/store/open_dataset.h"
#include "runtime/store/trace.h"
#include "runtime/transport/mpi.h"

namespace hetpipe {
namespace {

namespace fs = std::filesystem;

OpenData data_of(const TrainOptions& options) {
  return
      [spec = *options.data](Split split, Parts parts) { return open_dataset(spec, split, parts); };
}

std::string command_of(const Invocation& how) {
  std::vector<std::string> words{how.program, "train"};
  words.insert(words.end(), how.arguments.begin(), how.arguments.end());
  return shell_words(words);
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
    std::vector<fs::path> files;
    const int ranks = job.plan.worker_ranks() + job.plan.server_ranks();
    for (int r = 0; r < ranks; ++r)
      files.push_back(format("%s/rank-%d.h5", job.trace_folder.c_str(), r));
    write_trace_master(fs::path(job.trace_folder) / "trace.h5", files);
  }
  log.line(summary(job, outcome));
  log.line("everything of this run: " + prepared.directory->path().string());
}

int exit_code_of(const std::exception& error) {
  if (dynamic_cast<const UserError*>(&error) != nullptr) return static_cast<int>(ExitCode::user);
  if (dynamic_cast<const NumericalError*>(&error) != nullptr) {
    return static_cast<int>(ExitCode::numerical);
  }
  return static_cast<int>(ExitCode::system);
}

// Ranks as threads of this process.
int train_in_threads(const Invocation& how, const TrainOptions& options,
                     const std::string& configuration) {
  Log log(stdout, stderr, people_watch() ? Log::Terminal::yes : Log::Terminal::no);
  // As many threads as the plan needs: the number of ranks cannot be wrong.
  const Preparation prepared =
      prepare_training(options, configuration, std::nullopt, command_of(how), log);
  const TrainJob& job = prepared.job;
  const int ranks = job.plan.worker_ranks() + job.plan.server_ranks();
  const std::vector<RankFacts> facts(static_cast<std::size_t>(ranks), facts_of_this_rank());
  const Roles roles = decide_roles(job, facts);
  greet(prepared, roles, facts, "threads of one process", log);

  const Reporter::Outcome outcome =
      train_as_threads(job, roles, data_of(options), facts.front().host, log);
  close_run(job, outcome, prepared, log);
  return 0;
}

// What rank 0 hands to all: its job, or why there is none.
struct Opening {
  std::string facts;
  std::string job;
  std::string error;
  int code = 0;
};
std::vector<std::byte> pack(const Opening& opening) {
  std::vector<std::byte> bytes;
  for (const std::string& text :
       {opening.facts, opening.job, opening.error, std::to_string(opening.code)}) {
    for (char c : text) bytes.push_back(static_cast<std::byte>(c));
    bytes.push_back(std::byte{0});
  }
  return bytes;
}
Opening unpack(std::span<const std::byte> bytes) {
  std::vector<std::string> texts(1);
  for (const std::byte b : bytes) {
    if (b == std::byte{0}) {
      texts.emplace_back();
    } else {
      texts.back() += static_cast<char>(b);
    }
  }
  return {texts.at(0), texts.at(1), texts.at(2), std::stoi(texts.at(3))};
}

int train_over_mpi(const Invocation& how, const TrainOptions& options,
                   const std::string& configuration) {
  MpiSession session(nullptr, nullptr);
  const auto here = launched();
  if (here && here->ranks != session.ranks()) {
    throw UserError(
        "", format("%s started %d ranks, and MPI sees %d (they do not share one MPI world). Start "
                   "them with the mpirun "
                   "of %s, or with srun --mpi=pmix.",
                   here->by.c_str(), here->ranks, session.ranks(), session.library().c_str()));
  }
  const bool first = session.rank() == Rank{0};
  Log log(first ? stdout : nullptr, stderr,
          first && people_watch() ? Log::Terminal::yes : Log::Terminal::no);
  const std::unique_ptr<Transport> transport = session.make_transport();

  Opening mine;
  mine.facts = to_text(facts_of_this_rank());
  Preparation prepared;
  if (first) {
    try {
      prepared = prepare_training(options, configuration, session.ranks(), command_of(how), log);
      mine.job = to_text(prepared.job);
    } catch (const UserError& error) {
      mine.error = error.what();
      mine.code = static_cast<int>(ExitCode::user);
    } catch (const SystemError& error) {
      mine.error = error.what();
      mine.code = static_cast<int>(ExitCode::system);
    }
  }
  std::vector<Opening> openings;
  for (const auto& bytes : transport->exchange(pack(mine))) openings.push_back(unpack(bytes));
  if (openings.front().code != 0) {
    if (first) std::fprintf(stderr, "%s\n", mine.error.c_str());
    return openings.front().code;
  }

  // From here on every rank holds the same values, and comes to the same verdict on them.
  const TrainJob job = job_from_text(openings.front().job);
  std::vector<RankFacts> facts;
  for (const Opening& opening : openings) facts.push_back(facts_from_text(opening.facts));
  Problems problems;
  check_together(facts, job, problems);
  problems.throw_if_any();
  const Roles roles = decide_roles(job, facts);
  if (first) greet(prepared, roles, facts, session.library(), log);

  try {
    if (job.cluster) {
      const LinkTable links = make_link_table(*job.cluster, roles);
      const std::string file = fs::path(job.checkpoint_folder).parent_path() / "links";
      if (first) {
        const auto clock = LinkClock::in_file(file, links.resources, true);
        transport->exchange({});
        transport->emulate_links(links, clock);
      } else {
        transport->exchange({});
        transport->emulate_links(links, LinkClock::in_file(file, links.resources, false));
      }
      transport->exchange({});
      if (first) fs::remove(file);  // mapped by all: the name has served
    }
    const Reporter::Outcome outcome =
        run_rank(job, {*transport, roles, data_of(options),
                       facts[static_cast<std::size_t>(session.rank().value)].host, log});
    if (first) close_run(job, outcome, prepared, log);
  } catch (const std::exception& error) {
    // The others are in the middle of their work: this rank says why, and ends the job.
    const int code = exit_code_of(error);
    log.clear_progress();
    std::fprintf(stderr, "rank %d on %s: %s\n", session.rank().value,
                 facts[static_cast<std::size_t>(session.rank().value)].host.c_str(), error.what());
    std::fflush(stderr);
    transport->abort(code);
    return code;
  }
  return 0;
}

}  // namespace

int train_command(const Invocation& how) {
  TrainOptions options;
  OptionTable table = train_option_table(options);
  if (!read_options(table, how.arguments,
                    [&](Problems& problems) { check_train_options(options, problems); })) {
    return 0;
  }
  const std::string configuration = table.configuration();
  return options.transport == "threads" ? train_in_threads(how, options, configuration)
                                        : train_over_mpi(how, options, configuration);
}

}  // namespace hetpipe
