// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <set>

#include "base/file.h"
#include "base/text.h"
#include "launch/command/model_name.h"
#include "launch/command/output_file.h"
#include "launch/command/shell_words.h"
#include "launch/command/subcommand.h"
#include "launch/command/terminal.h"
#include "launch/plan/answers.h"
#include "launch/plan/estimate.h"
#include "launch/plan/options.h"
#include "launch/plan/plan_json.h"
#include "launch/plan/planning_progress.h"
#include "launch/plan/questions.h"
#include "launch/recipes/recipe.h"
#include "partitioner/cluster/catalogue.h"
#include "partitioner/plan/plan_svg.h"
#include "partitioner/plan/plan_table.h"
#include "partitioner/planners/explain.h"
#include "partitioner/planners/search.h"
#include "partitioner/planners/what_if.h"
#include "partitioner/profile/estimate.h"
#include "runtime/model/graph/import.h"
#include "runtime/model/zoo.h"
#include "runtime/training/job.h"
#include "runtime/training/training_data.h"

namespace hetpipe {
namespace {

struct PlanOptions {
  PlanningOptions planning;
  std::optional<std::string> recipe;
  DataOptions data;
  std::string output = "plan.toml";
  std::optional<std::string> svg;
  bool json = false;
  bool ledger = false;
  PlanQuestions questions;
  EstimateOptions estimate;
};

DescribedModel described(const PlanOptions& options) {
  return {options.data.model,       options.data.data,     options.estimate.sample,
          options.estimate.classes, options.estimate.loss, options.data.samples};
}

OptionTable table_of(PlanOptions& options) {
  return {
      "plan",
      "Partitions a profiled model into stages for the devices of a cluster, and writes the plan.",
      {{"What to plan",
        {
            required(text_option("cluster", "FILE", options.planning.cluster, "Cluster file.")),
            unset_means("--estimate", text_option("profile", "FILE", options.planning.profile,
                                                  "Profile of the model, as written by hetpipe "
                                                  "profile, or PipeDream's graph.txt.")),
            profile_device_option(options.planning),
            profile_batch_option(options.planning),
            recipe_option(options.recipe),
            offering(model_names(),
                     text_option("model", "NAME|DIR", options.data.model,
                                 "Folder of the exported PyTorch model that the profile is of, for "
                                 "the printed launch lines. With --estimate the model that is "
                                 "planned, which may also be a built-in one.")),
            text_option("data", "DATA", options.data.data,
                        "Data set of the printed launch lines, of --epochs and --estimate. Says "
                        "whether this machine reads it as fast as the plan trains; a plan of a "
                        "profile does not depend on it."),
            real_option("test-share", "F", options.data.test_share, {0, 1, true},
                        "As for hetpipe train."),
            text_option("output", "FILE", options.output, "Where to write the plan."),
            text_option("svg", "FILE", options.svg,
                        "Also draws the pool and the cut, as an SVG image."),
            ema_option(options.planning, PlanGiven::never),
            flag_option("ledger", options.ledger,
                        "Also prints the memory of every stage item by item."),
            flag_option("json", options.json,
                        "Prints the plan as one JSON document instead of tables."),
        }},
       question_options(options.questions),
       estimate_options(options.estimate),
       loss_options(options.estimate.loss),
       sample_options(options.data.samples, MixedSamples::yes),
       shape_options(options.planning, PlanGiven::never),
       server_options(options.planning, PlanGiven::never)}};
}

std::string train_words(const Invocation& how, const PlanOptions& options) {
  std::vector<std::string> words{how.program,    "train",     "--plan",
                                 options.output, "--cluster", *options.planning.cluster};
  if (options.planning.profile) {
    words.insert(words.end(), {"--profile", *options.planning.profile});
  }
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

// Options that a recipe has for something else here.
std::vector<std::string> not_of_recipe(const PlanOptions& options) {
  std::vector<std::string> names;
  if (!options.estimate.estimate) {
    names = names_of_loss();
    names.emplace_back("model");  // the profile names it; --model is a folder for printed lines
  }
  if (!options.data.data && !options.questions.dataset_size) names.emplace_back("epochs");
  if (options.questions.global_batch) names.emplace_back("minibatch");
  return names;
}

PlanRequest request_for(const PlanOptions& options, const Cluster& cluster) {
  PlanningOptions planning = options.planning;
  if (options.questions.global_batch) {
    planning.policy = "search";
    if (!planning.objective) planning.objective = "throughput";
  }
  std::optional<Profile> estimated = estimated_profile(options.estimate, described(options));
  PlanRequest request =
      request_of(planning, cluster,
                 estimated ? with_kinds_of(planning, cluster, std::move(*estimated))
                           : load_profile_of(planning, cluster));
  request.search = search_choice(planning);
  request.progress = planning_progress(cluster.devices().size());
  return request;
}

std::int64_t dataset_size(const PlanOptions& options, const Profile& profile) {
  if (options.questions.dataset_size) return *options.questions.dataset_size;
  return open_training_data({.model = {.name = options.data.model.value_or(profile.model)},
                             .data = *options.data.data,
                             .test_share = options.data.test_share,
                             .images = image_rules(options.data.samples)},
                            Split::train, Parts::labels)
      .size;
}

// Of the plans at the global batch that is asked for, the first; `request` becomes its own.
Plan best_batched(const PlanOptions& options, PlanRequest& request, PlanNotes& notes) {
  notes.batched = plans_of_global_batch(request, *options.questions.global_batch);
  notes.global_batch = *options.questions.global_batch;
  if (!notes.batched.empty() && notes.batched.front().plan) {
    const Plan plan = *notes.batched.front().plan;
    request = request_of_batch(request, plan.system, static_cast<int>(plan.virtual_workers.size()),
                               notes.global_batch);
    return plan;
  }
  std::vector<std::string> reasons;
  for (const BatchedPlan& one : notes.batched) reasons.push_back(one.system + ": " + one.why_not);
  throw UserError("--global-batch",
                  format("%d: no system has a plan for it. Give another number.\n",
                         *options.questions.global_batch) +
                      join(reasons, "\n"));
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
    if (options.svg) {
      check_output_file("--svg", *options.svg, problems);
      check_file_of_its_own("--svg", *options.svg,
                            {{"--cluster", options.planning.cluster},
                             {"--profile", options.planning.profile},
                             {"--output", options.output}},
                            problems);
    }
    if (options.data.model && !options.estimate.estimate) {
      check_model_folder("--model", *options.data.model, problems);
    }
    check_estimate_options(options.estimate, described(options), options.planning, problems);
    check_questions(options.questions, options.planning, options.data.data.has_value(), problems);
    check_sample_options(options.data.samples, problems);
    check_planning_options(options.planning, problems);
    check_ema(options.planning, problems);
  };
  if (!read_options(table, how, check, [&] {
        return options_of_recipe(options.recipe, table, not_of_recipe(options));
      })) {
    return 0;
  }

  const Cluster cluster = load_cluster(*options.planning.cluster);
  if (cluster.devices().empty()) {
    throw UserError(
        *options.planning.cluster,
        "no node has a device (at least one is needed to compute). Give a node devices.");
  }
  PlanRequest request = request_for(options, cluster);
  const Profile& profile = request.profile;
  if (options.data.model && !options.estimate.estimate) {
    check_model_of_profile(*options.data.model, profile);
  }
  const std::vector<ChangedPool> pools = changed_pools(options.questions, request);
  PlanNotes notes;
  if (options.questions.epochs) {
    notes.epochs = EpochsTime{*options.questions.epochs, dataset_size(options, profile)};
  }
  if (!options.questions.global_batch && planner_of(request) == PlannerRule::search) {
    notes.search = search_plans(request);
  }
  const Plan plan = options.questions.global_batch ? best_batched(options, request, notes)
                    : notes.search                 ? notes.search->plan
                                                   : make_plan(request);
  if (notes.epochs) notes.epochs->throughput = plan.predicted->throughput;
  if (options.questions.largest) notes.largest = largest_minibatch(request, plan);
  write_file(options.output, to_toml(plan, &profile));
  if (options.svg) write_file(*options.svg, plan_svg(plan, cluster, profile));
  if (!pools.empty()) notes.answers = what_if(request, plan, pools);
  if (options.questions.explain) notes.explanation = explain(request, plan);
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
  if (options.questions.global_batch) {
    std::printf("\n%s", batched_text(notes.batched, request, notes.global_batch).c_str());
  }
  if (notes.epochs) std::printf("\n%s", epochs_text(*notes.epochs).c_str());
  if (notes.largest) std::printf("\n%s", largest_text(*notes.largest, request, plan).c_str());
  if (!notes.answers.empty()) std::printf("\n%s", what_if_table(notes.answers, request).c_str());
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
  if (options.svg) std::printf("\ndrawing written to %s\n", options.svg->c_str());
  print_start(plan, cluster, how, options);
  return 0;
}

}  // namespace hetpipe
