// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>

#include "base/file.h"
#include "base/text.h"
#include "launch/command/options.h"
#include "launch/command/output_file.h"
#include "launch/command/said_of.h"
#include "launch/command/subcommand.h"
#include "launch/command/terminal.h"
#include "launch/plan/estimate.h"
#include "launch/plan/options.h"
#include "launch/report/page.h"
#include "launch/report/simulated_run.h"
#include "launch/simulate/text.h"
#include "partitioner/plan/made_for.h"
#include "partitioner/planners/changed_plan.h"
#include "partitioner/simulator/chrome_trace.h"
#include "partitioner/simulator/durations.h"
#include "partitioner/simulator/gantt.h"
#include "partitioner/simulator/simulate.h"
#include "partitioner/simulator/simulation_json.h"
#include "runtime/model/zoo.h"

namespace hetpipe {
namespace {

struct SimulateOptions {
  PlanningOptions files;  // cluster, profile, profile_device
  EstimateOptions estimate;
  std::optional<std::string> model;
  std::optional<std::string> data;
  SampleOptions samples;
  std::string plan;
  std::optional<std::string> what_if;
  std::optional<std::string> durations;
  std::optional<int> minibatches;
  std::optional<std::int64_t> seed;
  double jitter = 0;
  bool json = false;
  bool gantt = false;
  std::optional<std::string> svg;
  std::optional<std::string> report;
  bool with_simulator = false;
  std::optional<std::string> trace;
  std::optional<double> from;
  std::optional<double> until;
};

OptionTable table_of(SimulateOptions& options) {
  OptionGroup estimate = estimate_options(options.estimate);
  estimate.options.push_back(
      offering(model_names(), text_option("model", "NAME|DIR", options.model,
                                          "Of --estimate: name of a built-in model, or the folder "
                                          "of an exported PyTorch model.")));
  estimate.options.push_back(
      text_option("data", "DATA", options.data, "Of --estimate: data set that the model is for."));
  return {
      "simulate",
      "Simulates a plan with the times of a profile and the links of a cluster, without running "
      "it: throughput, what every device does over time, its memory.",
      {{"What to simulate",
        {
            required(text_option("cluster", "FILE", options.files.cluster, "Cluster file.")),
            unset_means("--estimate",
                        text_option("profile", "FILE", options.files.profile,
                                    "Profile of the model that the plan was made for.")),
            profile_device_option(options.files),
            profile_batch_option(options.files),
            precision_option(options.files, PlanGiven::possibly),
            required(text_option("plan", "FILE", options.plan,
                                 "Plan, as written by hetpipe plan or by hand.")),
            text_option("what-if", "CHANGES", options.what_if,
                        "The plan with other links or settings, separated by commas: \"inter "
                        "x2\", \"intra x0.5\", \"minibatch = 64\", \"in-flight = 4\", "
                        "\"clock-distance = 1\"; or on another pool, for which it is planned anew "
                        "if it uses what is gone: \"-n0:1\", \"+2 rtx-3090 @n0\" (all changes: "
                        "hetpipe plan --help)."),
            text_option("durations", "FILE", options.durations,
                        "Replays recorded times of each action (CSV: virtual worker, stage, "
                        "replica, minibatch, micro-batch, kind, seconds), as hetpipe trace export "
                        "writes them of a run. What has no row takes the time of profile and "
                        "network."),
            unset_means("enough to reach a steady state, or those of --durations",
                        integer_option("minibatches", "N", options.minibatches, {1, 1e6},
                                       "Minibatches of each virtual worker.")),
            real_option("jitter", "X", options.jitter, {0, 2},
                        "Relative standard deviation of every compute time; 0: none."),
            unset_means("0", integer_option("seed", "N", options.seed, {0},
                                            "Seed of the jitter: the same seed gives the same "
                                            "result.")),
        }},
       {"Output",
        {
            flag_option("json", options.json, "Prints one JSON document instead of a table."),
            flag_option("gantt", options.gantt,
                        "Draws what every device does over time, in letters, below the table."),
            text_option("svg", "FILE", options.svg, "Writes that drawing as an SVG image."),
            text_option(
                "report", "FILE", options.report,
                "Writes a page for a browser (HTML): what limits the plan, where time goes, "
                "the timeline, memory."),
            with_simulator_option(options.with_simulator),
            text_option("trace", "FILE", options.trace,
                        "Writes every action as a Chrome trace (JSON), for ui.perfetto.dev."),
            unset_means("the start", real_option("from", "S", options.from, kNotNegative,
                                                 "Second at which the drawings begin.")),
            unset_means("as long as single actions can be distinguished",
                        real_option("until", "S", options.until, kPositive,
                                    "Second at which the drawings end.")),
        }},
       std::move(estimate),
       loss_options(options.estimate.loss),
       sample_options(options.samples)}};
}

DescribedModel described(const SimulateOptions& options) {
  return {options.model,         options.data,   options.estimate.sample, options.estimate.classes,
          options.estimate.loss, options.samples};
}

void check(const SimulateOptions& options, Problems& problems) {
  NamedFiles used{{"--cluster", options.files.cluster},
                  {"--profile", options.files.profile},
                  {"--plan", options.plan},
                  {"--durations", options.durations}};
  for (const auto& [option, file] : {std::pair{"--svg", options.svg},
                                     {"--report", options.report},
                                     {"--trace", options.trace}}) {
    if (!file) continue;
    check_output_file(option, *file, problems);
    check_file_of_its_own(option, *file, used, problems);
    used.emplace_back(option, file);
  }
  check_estimate_options(options.estimate, described(options), options.files, problems);
  for (const auto& [option, given] :
       {std::pair{"--model", options.model.has_value()}, {"--data", options.data.has_value()}}) {
    if (!given || options.estimate.estimate) continue;
    problems.add(option,
                 "has no effect without --estimate (the profile is of a model). Leave it "
                 "out.");
  }
  if (options.seed && options.jitter == 0) {
    problems.add("--seed", "has no effect (only the jitter is random). Add --jitter X.");
  }
  if (options.durations && options.jitter > 0) {
    problems.add("--jitter",
                 "cannot be combined with --durations (recorded times have their own). Leave one "
                 "out.");
  }
  if (options.with_simulator && !options.report) {
    problems.add("--with-simulator", "has no effect (it is for a page). Add --report FILE.");
  }
  if (options.what_if && options.report) {
    problems.add("--what-if",
                 "cannot be combined with --report (a page is of a plan file, whose edits it "
                 "tells). Leave one out; a page --with-simulator asks such questions itself.");
  }
  if (options.what_if && options.durations) {
    problems.add("--what-if",
                 "cannot be combined with --durations (recorded times are of the plan as it was). "
                 "Leave one out.");
  }
  if (options.json && options.gantt) {
    problems.add("--gantt",
                 "cannot be combined with --json (standard output is then one JSON document). "
                 "Leave one out, or draw with --svg FILE.");
  }
  if (options.from && options.until && *options.from >= *options.until) {
    problems.add("--until",
                 format("%g is not after --from %g (there is nothing to draw). Raise it.",
                        *options.until, *options.from));
  }
  for (const auto& [option, given] :
       {std::pair{"--from", options.from.has_value()}, {"--until", options.until.has_value()}}) {
    if (given && !options.gantt && !options.svg) {
      problems.add(option, "has no effect (it limits a drawing). Add --gantt or --svg.");
    }
  }
}

// Of a page: the command without its plan.
std::vector<std::string> words_of(const SimulateOptions& options) {
  std::vector<std::string> words{"hetpipe", "simulate", "--cluster", *options.files.cluster};
  for (const auto& [option, file] : {std::pair{"--profile", options.files.profile},
                                     {"--profile-device", options.files.profile_device},
                                     {"--precision", options.files.precision},
                                     {"--durations", options.durations},
                                     {"--model", options.model},
                                     {"--data", options.data}}) {
    if (file) words.insert(words.end(), {option, *file});
  }
  if (options.files.profile_batch) {
    words.insert(words.end(), {"--profile-batch", std::to_string(*options.files.profile_batch)});
  }
  if (options.estimate.estimate) words.emplace_back("--estimate");
  return words;
}

}  // namespace

int simulate_command(const Invocation& how) {
  SimulateOptions options;
  OptionTable table = table_of(options);
  if (!read_options(table, how, [&](Problems& p) { check(options, p); })) return 0;

  std::optional<BrowserSimulator> simulator;
  if (options.with_simulator) simulator = load_browser_simulator("--with-simulator");
  Cluster cluster = load_cluster(*options.files.cluster);
  const std::optional<Profile> estimated = estimated_profile(options.estimate, described(options));
  const Plan unchecked =
      estimated ? load_plan(options.plan, &*estimated) : load_plan_of(options.plan, options.files);
  Profile profile = estimated ? with_kinds_of(options.files, cluster, *estimated, &unchecked)
                              : load_profile_of(options.files, cluster, &unchecked);
  const std::string text = read_file(options.plan);
  Plan plan = parse_plan(text, options.plan, cluster, profile);
  const std::string warning =
      check_made_for(plan, cluster, profile,
                     {options.plan, text, *options.files.cluster,
                      options.files.profile.value_or("the estimate of " + *options.model)});
  std::fputs(warning.c_str(), stderr);
  std::optional<SimulatedChange> change;
  if (options.what_if) {
    ChangedPlan changed = changed_plan(plan, cluster, profile, *options.what_if, "--what-if");
    change = {*options.what_if, changed.planned_anew};
    plan = std::move(changed.plan);
    cluster = std::move(changed.cluster);
    profile = std::move(changed.profile);
  }
  std::optional<Durations> durations;
  if (options.durations) {
    durations = parse_durations(read_file(*options.durations), *options.durations);
  }
  SimulationRequest request{options.minibatches,
                            static_cast<std::uint64_t>(options.seed.value_or(0)), options.jitter,
                            options.gantt || options.svg || options.report || options.trace};
  if (durations) request.durations = &*durations;
  const Simulation simulation =
      said_of(plan.runtime.empty() ? options.plan : place_of_key(text, options.plan, "runtime"),
              [&] { return simulate(plan, cluster, profile, request); });

  const std::vector<UnmeasuredTimes> unmeasured = unmeasured_times(plan, cluster, profile);
  GanttRequest drawing{100, options.from, options.until};
  if (options.svg) write_file(*options.svg, gantt_svg(simulation, cluster, drawing));
  if (options.trace) write_file(*options.trace, chrome_trace(simulation, cluster));
  if (options.report) {
    const ReportedRun run =
        simulated_run(plan, cluster, profile, simulation, options.plan, words_of(options));
    write_file(*options.report, report_page({&run, 1}, simulator));
  }
  if (options.json) {
    std::fputs(simulation_json(plan, simulation, unmeasured, change).c_str(), stdout);
    return 0;
  }
  std::string said = simulation_table(plan, cluster, simulation);
  if (change && change->planned_anew)
    said += "planned anew, as the plan's devices are not all there\n";
  if (durations) said += "\n" + replayed_text(*options.durations, *simulation.replayed);
  if (!unmeasured.empty()) said += "\n" + unmeasured_text(unmeasured);
  if (options.gantt) {
    drawing.width = line_width();
    said += "\n" + gantt_text(simulation, cluster, drawing);
  }
  std::fputs(said.c_str(), stdout);
  if (options.report) std::printf("report written to %s\n", options.report->c_str());
  if (options.svg) std::printf("drawing written to %s\n", options.svg->c_str());
  if (options.trace) {
    std::printf("trace written to %s; open it at ui.perfetto.dev\n", options.trace->c_str());
  }
  return 0;
}

}  // namespace hetpipe
