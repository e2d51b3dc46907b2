// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

#include "base/file.h"
#include "base/text.h"
#include "launch/command/model_name.h"
#include "launch/command/output_file.h"
#include "launch/command/shell_words.h"
#include "launch/command/subcommand.h"
#include "launch/command/terminal.h"
#include "launch/plan/options.h"
#include "launch/plan/plan_json.h"
#include "launch/plan/planning_progress.h"
#include "launch/recipes/recipe.h"
#include "partitioner/cluster/catalogue.h"
#include "partitioner/plan/plan_table.h"
#include "partitioner/planners/explain.h"
#include "partitioner/planners/search.h"
#include "partitioner/planners/what_if.h"
#include "partitioner/profile/estimate.h"
#include "runtime/model/graph/import.h"
#include "runtime/training/job.h"

namespace hetpipe {
namespace {

struct PlanOptions {
  PlanningOptions planning;
  std::optional<std::string> recipe;
  DataOptions data;
  std::string output = "plan.toml";
  bool json = false;
  bool ledger = false;
  bool explain = false;
  std::vector<std::string> what_if;
};

OptionTable table_of(PlanOptions& options) {
  return {
      "plan",
      "Partitions a profiled model into stages for the devices of a cluster, and writes the plan.",
      {{"What to plan",
        {
            required(text_option("cluster", "FILE", options.planning.cluster, "Cluster file.")),
            required(text_option("profile", "FILE", options.planning.profile,
                                 "Profile of the model, as written by hetpipe profile, or "
                                 "PipeDream's graph.txt.")),
            profile_device_option(options.planning),
            profile_batch_option(options.planning),
            recipe_option(options.recipe),
            text_option("model", "DIR", options.data.model,
                        "Folder of the exported PyTorch model that the profile is of, for the "
                        "printed launch lines."),
            text_option("data", "DATA", options.data.data,
                        "Data set of the printed launch lines. Says whether this machine reads it "
                        "as fast as the plan trains; the plan itself does not depend on it."),
            real_option("test-share", "F", options.data.test_share, {0, 1, true},
                        "As for hetpipe train."),
            text_option("output", "FILE", options.output, "Where to write the plan."),
            ema_option(options.planning, PlanGiven::never),
            flag_option("ledger", options.ledger,
                        "Also prints the memory of every stage item by item."),
            flag_option("json", options.json,
                        "Prints the plan as one JSON document instead of tables."),
        }},
       {"Questions about the plan",
        {
            flag_option("explain", options.explain,
                        "Names the bottleneck and what would be faster: a layer moved, more "
                        "minibatches in flight, a device left out, faster links."),
            repeated_option("what-if", "CHANGES", options.what_if,
                            "Also plans for a changed cluster, and compares: \"+2 rtx-3090 "
                            "@n0\", \"-n3\" (a node), \"-n0:1\" (a device), \"-2 rtx-2060\"; "
                            "changes separated by commas are made together. May be repeated."),
        }},
       sample_options(options.data.samples, MixedSamples::yes),
       shape_options(options.planning, PlanGiven::never),
       server_options(options.planning, PlanGiven::never)}};
}

std::string train_words(const Invocation& how, const PlanOptions& options) {
  std::vector<std::string> words{how.program, "train",
                                 "--plan",    options.output,
                                 "--cluster", *options.planning.cluster,
                                 "--profile", *options.planning.profile};
  if (options.planning.profile_device) {
    words.insert(words.end(), {"--profile-device", *options.planning.profile_device});
  }
  if (options.planning.profile_batch) {
    words.insert(words.end(), {"--profile-batch", std::to_string(*options.planning.profile_batch)});
  }
  if (options.recipe) words.insert(words.end(), {"--recipe", *options.recipe});
  const DataOptions& data = options.data;
  if (data.model) words.insert(words.end(), {"--model", *data.model});
  words.insert(words.end(), {"--data", data.data.value_or("DATA")});
  if (data.test_share) words.insert(words.end(), {"--test-share", format("%g", *data.test_share)});
  for (std::string& word : sample_words(data.samples)) words.push_back(std::move(word));
  return shell_words(words);
}

// The printed lines would not start.
void check_model_of_profile(const std::string& folder, const Profile& profile) {
  const std::string name = exported_name(folder);
  if (name == profile.model) return;
  throw UserError("--model", "'" + folder + "' holds model '" + name + "' (the profile is of '" +
                                 profile.model +
                                 "'). Give the model that was profiled, or profile this one.");
}

// The pools asked about. All that is wrong with the questions is said before anything is planned.
std::vector<ChangedPool> changed_pools(const PlanOptions& options, const PlanRequest& request) {
  std::vector<ChangedPool> pools;
  Problems problems;
  for (const std::string& change : options.what_if) {
    try {
      Cluster cluster = changed_cluster(request.cluster, change, try_catalogue_kind,
                                        catalogue_names(), "--what-if");
      Profile profile = with_estimates(request.profile, cluster, request.precision,
                                       [&](const DeviceKind&) { return "--what-if " + change; });
      pools.push_back({change, std::move(cluster), std::move(profile)});
    } catch (const UserError& error) {
      for (const Problem& problem : error.problems()) problems.add(problem.where, problem.text);
    }
  }
  problems.throw_if_any();
  return pools;
}

std::vector<StageNeed> needs_of(const Plan& plan, const Cluster& cluster, const Profile& profile) {
  std::vector<StageNeed> needs;
  for (std::size_t vw = 0; vw < plan.virtual_workers.size(); ++vw) {
    for (std::size_t k = 0; k < plan.virtual_workers[vw].stages.size(); ++k) {
      needs.push_back(fullest_replica(plan, cluster, profile, VirtualWorkerId{static_cast<int>(vw)},
                                      StageId{static_cast<int>(k)}));
    }
  }
  return needs;
}

// Of the plan, and of those for changed pools what they add to it.
std::vector<UnmeasuredTimes> all_unmeasured(const PlanNotes& notes) {
  std::vector<UnmeasuredTimes> all = notes.unmeasured;
  std::set<std::string> said;
  for (const UnmeasuredTimes& one : all) said.insert(one.text);
  for (const Answer& answer : notes.answers) {
    for (const UnmeasuredTimes& one : answer.unmeasured) {
      if (said.insert(one.text).second) all.push_back(one);
    }
  }
  return all;
}

void print_start(const Plan& plan, const Cluster& cluster, const Invocation& how,
                 const PlanOptions& options) {
  std::printf("\nplan written to %s", options.output.c_str());
  Problems problems;
  check_playable(plan, problems);
  if (!problems.empty()) {
    std::printf("; it cannot be trained, only simulated (hetpipe simulate):\n");
    for (const Problem& problem : problems.list()) {
      const bool of_a_stage = problem.where.starts_with("plan: ");
      std::printf("  %s%s\n", of_a_stage ? (problem.where.substr(6) + ": ").c_str() : "",
                  problem.text.c_str());
    }
    return;
  }
  const std::string command = train_words(how, options);
  std::printf("; start it with one of\n  %s\n  %s\n", mpirun_line(plan, cluster, command).c_str(),
              srun_line(plan, cluster, command).c_str());
}

constexpr std::size_t kMostCandidates = 8;
constexpr double kVisible = 5e-4;  // less prints as 0.0 %

// What a search considered, how far its plan can be from the best, and which devices it leaves idle
// at what cost, as text.
std::string search_text(const SearchResult& result, const Cluster& cluster) {
  const bool late = std::any_of(result.considered.begin(), result.considered.end(),
                                [](const auto& of) { return of.worth < of.throughput; });
  std::vector<std::string> columns{"considered", "plan", "samples/s"};
  if (late) columns.emplace_back("worth, samples/s");
  Table table(columns);
  const std::size_t shown = std::min(result.considered.size(), kMostCandidates);
  for (std::size_t i = 0; i < shown; ++i) {
    const SearchCandidate& candidate = result.considered[i];
    const bool runs = candidate.throughput > 0;
    std::vector<std::string> cells{candidate.origin,
                                   runs ? candidate.what : first_line(candidate.why_not),
                                   runs ? format("%.4g", candidate.throughput) : "-"};
    if (late) cells.push_back(runs ? format("%.4g", candidate.worth) : "-");
    table.add(cells);
  }
  std::string text = table.text();
  if (shown < result.considered.size()) {
    text += format("and %zu more\n", result.considered.size() - shown);
  }
  text += result.exact ? format("all plans were compared (%lld simulations)\n",
                                static_cast<long long>(result.simulations))
                       : format("%lld simulations; no plan can exceed %.4g samples/s\n",
                                static_cast<long long>(result.simulations), result.bound);
  const double chosen = result.plan.predicted ? result.plan.predicted->throughput : 0;
  if (shown > 0 && result.considered.front().worth > result.worth * (1 + 1e-6)) {
    text += format(
        "chosen: the plan of %.4g samples/s, the least stale of those within 1 %% of the "
        "best\n",
        chosen);
  }
  for (const LeftOut& left : result.left_out) {
    text += format("left idle: %s %s", to_string(left.device).c_str(),
                   cluster.kind_of(left.device).name.c_str());
    if (!left.change) {
      text += " (no plan that uses it was found)\n";
    } else if (std::abs(*left.change) < kVisible) {
      text += " (using it: no change)\n";
    } else {
      text += format(" (using it: %+.1f %%)\n", 100 * *left.change);
    }
  }
  return text;
}

}  // namespace

int plan_command(const Invocation& how) {
  PlanOptions options;
  OptionTable table = table_of(options);
  const auto check = [&](Problems& problems) {
    check_output_file("--output", options.output, problems);
    check_file_of_its_own(
        "--output", options.output,
        {{"--cluster", options.planning.cluster}, {"--profile", options.planning.profile}},
        problems);
    if (options.data.model) check_model_folder("--model", *options.data.model, problems);
    check_sample_options(options.data.samples, problems);
    check_planning_options(options.planning, problems);
    check_ema(options.planning, problems);
  };
  // Its model is named by the profile; --model here is a folder for the printed lines.
  if (!read_options(table, how, check,
                    [&] { return options_of_recipe(options.recipe, table, {"model"}); })) {
    return 0;
  }

  const Cluster cluster = load_cluster(*options.planning.cluster);
  if (cluster.devices().empty()) {
    throw UserError(
        *options.planning.cluster,
        "no node has a device (at least one is needed to compute). Give a node devices.");
  }
  PlanRequest request =
      request_of(options.planning, cluster, load_profile_of(options.planning, cluster));
  request.search = search_choice(options.planning);
  request.progress = planning_progress(cluster.devices().size());
  const Profile& profile = request.profile;
  if (options.data.model) check_model_of_profile(*options.data.model, profile);
  const std::vector<ChangedPool> pools = changed_pools(options, request);
  PlanNotes notes;
  if (planner_of(request) == PlannerRule::search) notes.search = search_plans(request);
  Plan plan = notes.search ? notes.search->plan : make_plan(request);
  write_file(options.output, to_toml(plan, &profile));
  if (!pools.empty()) notes.answers = what_if(request, plan, pools);
  if (options.explain) notes.explanation = explain(request, plan);
  request.progress = nullptr;
  notes.unmeasured = unmeasured_times(plan, cluster, profile);
  if (options.data.data) notes.feed = planned_feed(options.data, plan);
  if (options.json) {
    if (options.ledger) notes.ledger = needs_of(plan, cluster, profile);
    std::fputs(plan_json(plan, notes).c_str(), stdout);
    return 0;
  }
  std::fputs(plan_table(plan, cluster, profile).c_str(), stdout);
  std::printf("\n%s", memory_table(plan, cluster, profile).c_str());
  if (options.ledger) std::printf("\n%s", ledger_table(plan, cluster, profile).c_str());
  if (notes.search) std::printf("\n%s", search_text(*notes.search, cluster).c_str());
  if (!notes.answers.empty()) std::printf("\n%s", what_if_table(notes.answers).c_str());
  if (notes.explanation) {
    const auto width = static_cast<std::size_t>(line_width() - 2);
    std::printf("\n");
    for (const std::string& sentence : notes.explanation->sentences) {
      std::printf("%s\n", wrapped(sentence, 2, width).c_str());
    }
  }
  const std::string unmeasured = unmeasured_text(all_unmeasured(notes));
  if (!unmeasured.empty()) std::printf("\n%s", unmeasured.c_str());
  if (notes.feed) std::printf("\n%s", feed_text(*notes.feed).c_str());
  print_start(plan, cluster, how, options);
  return 0;
}

}  // namespace hetpipe
