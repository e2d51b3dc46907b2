// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "launch/command/options.h"
#include "launch/command/output_file.h"
#include "launch/command/said_of.h"
#include "launch/command/subcommand.h"
#include "launch/trace/aligned.h"
#include "launch/trace/event_files.h"
#include "launch/trace/recorded_run.h"
#include "launch/trace/run_files.h"

namespace hetpipe {
namespace {

constexpr int kVersion = 1;

struct ExportOptions {
  std::string run;
  std::optional<std::string> chrome;
  std::optional<std::string> csv;
  std::optional<std::string> durations;
  std::optional<std::string> plan;
  std::optional<std::string> profile;
  bool json = false;
};

OptionTable table_of(ExportOptions& options) {
  return {
      "trace export",
      "Writes a run's actions for other programs, or what each took for hetpipe simulate "
      "--durations.",
      {{"What to export",
        {
            argument(text_option("run", "RUN", options.run,
                                 "Run directory, or one of its trace folders "
                                 "(trace/from-<label>).")),
        }},
       {"Output (one or several)",
        {
            text_option("chrome", "FILE", options.chrome,
                        "Writes JSON that Perfetto (ui.perfetto.dev), Chrome's about:tracing and "
                        "viztracer show: a track for what each rank computes, receives, sends, "
                        "and exchanges with parameter servers."),
            text_option("csv", "FILE", options.csv,
                        "Writes a line per action: rank, place, kind, start and end by one clock."),
            text_option("durations", "FILE", options.durations,
                        "Writes a CSV file: virtual worker, stage, replica, minibatch, "
                        "micro-batch, kind, seconds."),
            flag_option("json", options.json, "Prints one JSON document instead of text."),
        }},
       {"For --durations",
        {
            unset_means("the run's",
                        text_option("plan", "FILE", options.plan, "Plan that the run had.")),
            unset_means("the run's", text_option("profile", "FILE", options.profile,
                                                 "Profile of its model, which says what goes from "
                                                 "stage to stage.")),
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

void check_outputs(const ExportOptions& options, Problems& problems) {
  const NamedFiles outputs{
      {"--chrome", options.chrome}, {"--csv", options.csv}, {"--durations", options.durations}};
  NamedFiles inputs{{"--plan", options.plan}, {"--profile", options.profile}};
  bool any = false;
  for (const auto& [name, file] : outputs) {
    if (!file) continue;
    any = true;
    check_output_file(name, *file, problems);
    check_file_of_its_own(name, *file, inputs, problems);
    inputs.emplace_back(name, file);
  }
  if (!any) {
    problems.add("trace export", "nothing to write. Give --chrome, --csv or --durations FILE.");
  }
  if (options.durations) return;
  for (const auto& [name, file] : inputs) {
    const bool input = name == "--plan" || name == "--profile";
    if (file && input) problems.add(name, "has an effect with --durations alone. Leave it out.");
  }
}

Json write_events(const AlignedTraces& traces, const ExportOptions& options) {
  if (options.chrome) write_file(*options.chrome, events_to_chrome(traces));
  if (options.csv) write_file(*options.csv, events_to_csv(traces));
  std::size_t events = 0;
  for (const AlignedRank& rank : traces.ranks) events += rank.events.size();
  if (!options.json) {
    for (const auto& file : {options.chrome, options.csv}) {
      if (!file) continue;
      std::printf("%s: %zu actions of %zu ranks in %.6g s\n", file->c_str(), events,
                  traces.ranks.size(), traces.seconds);
    }
  }
  return Json{{"events", events}, {"ranks", traces.ranks.size()}, {"span", traces.seconds}};
}

void write_durations(const RecordedRun& run, const ExportOptions& options, Json& json) {
  write_file(*options.durations, to_csv(run.durations));
  if (!options.json) {
    std::printf("%s: %zu times of %lld minibatches of each virtual worker, which took %.6g s\n",
                options.durations->c_str(), run.durations.rows().size(),
                static_cast<long long>(run.durations.minibatches()), run.seconds);
    if (run.evaluation_seconds > 0) {
      std::printf("evaluations, %.3g s, are left out\n", run.evaluation_seconds);
    }
  }
  json["minibatches"] = run.durations.minibatches();
  json["seconds"] = run.seconds;
  json["evaluation_seconds"] = run.evaluation_seconds;
  json["times"] = run.durations.rows().size();
}

}  // namespace

int trace_export(const Invocation& how) {
  ExportOptions options;
  OptionTable table = table_of(options);
  if (!read_options(table, how, [&](Problems& problems) { check_outputs(options, problems); })) {
    return 0;
  }
  const RunFiles files = run_files(options.run);
  const std::vector<Trace> traces = read_trace_master(files.trace);
  Json json{{"version", kVersion}};
  if (options.chrome || options.csv) {
    json["actions"] =
        said_of(files.trace.string(), [&] { return write_events(aligned(traces), options); });
  }
  if (options.durations) {
    const Profile profile = load_profile(given_or(options.profile, files.profile, "--profile"));
    const Plan plan = load_plan(given_or(options.plan, files.plan, "--plan"), &profile);
    const RecordedRun run =
        said_of(files.trace.string(), [&] { return recorded_run(traces, plan, profile); });
    write_durations(run, options, json);
  }
  if (options.json) std::fputs((json.dump(2) + "\n").c_str(), stdout);
  return 0;
}

}  // namespace hetpipe
