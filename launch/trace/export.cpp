// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "launch/command/options.h"
#include "launch/command/output_file.h"
#include "launch/command/said_of.h"
#include "launch/command/subcommand.h"
#include "launch/trace/recorded_run.h"
#include "launch/trace/run_files.h"

namespace hetpipe {
namespace {

constexpr int kVersion = 1;

struct ExportOptions {
  std::string run;
  std::string durations;
  std::optional<std::string> plan;
  std::optional<std::string> profile;
  bool json = false;
};

OptionTable table_of(ExportOptions& options) {
  return {
      "trace export",
      "Writes what each action of a run took, for hetpipe simulate --durations.",
      {{"What to export",
        {
            argument(text_option("run", "RUN", options.run,
                                 "Run directory, or one of its trace folders "
                                 "(trace/from-<label>).")),
            unset_means("the run's",
                        text_option("plan", "FILE", options.plan, "Plan that the run had.")),
            unset_means("the run's", text_option("profile", "FILE", options.profile,
                                                 "Profile of its model, which says what goes from "
                                                 "stage to stage.")),
        }},
       {"Output",
        {
            required(text_option("durations", "FILE", options.durations,
                                 "Writes a CSV file: virtual worker, stage, replica, minibatch, "
                                 "micro-batch, kind, seconds.")),
            flag_option("json", options.json, "Prints one JSON document instead of text."),
        }}}};
}

// A file of the run, or given in its place.
std::string given_or(const std::optional<std::string>& given, const std::filesystem::path& own,
                     const char* option) {
  if (given) return *given;
  if (std::filesystem::exists(own)) return own.string();
  throw UserError(option, own.string() +
                              " does not exist (a run keeps there what it was given). "
                              "Give " +
                              option + " FILE.");
}

}  // namespace

int trace_export(const Invocation& how) {
  ExportOptions options;
  OptionTable table = table_of(options);
  if (!read_options(table, how, [&](Problems& problems) {
        if (options.durations.empty()) return;
        check_output_file("--durations", options.durations, problems);
        check_file_of_its_own("--durations", options.durations,
                              {{"--plan", options.plan}, {"--profile", options.profile}}, problems);
      })) {
    return 0;
  }
  const RunFiles files = run_files(options.run);
  const Profile profile = load_profile(given_or(options.profile, files.profile, "--profile"));
  const Plan plan = load_plan(given_or(options.plan, files.plan, "--plan"), &profile);
  const RecordedRun run = said_of(files.trace.string(), [&] {
    return recorded_run(read_trace_master(files.trace), plan, profile);
  });
  write_file(options.durations, to_csv(run.durations));
  const auto minibatches = static_cast<long long>(run.durations.minibatches());
  if (options.json) {
    const Json json{{"version", kVersion},
                    {"minibatches", run.durations.minibatches()},
                    {"seconds", run.seconds},
                    {"evaluation_seconds", run.evaluation_seconds},
                    {"times", run.durations.rows().size()}};
    std::fputs((json.dump(2) + "\n").c_str(), stdout);
    return 0;
  }
  std::printf("%s: %zu times of %lld minibatches of each virtual worker, which took %.6g s\n",
              options.durations.c_str(), run.durations.rows().size(), minibatches, run.seconds);
  if (run.evaluation_seconds > 0) {
    std::printf("evaluations, %.3g s, are left out\n", run.evaluation_seconds);
  }
  return 0;
}

}  // namespace hetpipe
