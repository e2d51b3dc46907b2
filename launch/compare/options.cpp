// SPDX-License-Identifier: Apache-2.0
#include "launch/compare/options.h"

#include <algorithm>
#include <set>

#include "base/text.h"
#include "launch/recipes/recipe.h"
#include "partitioner/plan/system.h"
#include "runtime/model/zoo.h"

namespace hetpipe {
namespace {

// Options of hetpipe train that compare gives each run itself.
constexpr const char* kOwn[] = {
    "--plan",   "--cluster",       "--profile", "--profile-device",  "--data",         "--model",
    "--output", "--profile-batch", "--resume",  "--system",          "--seed",         "--json",
    "--config", "--help",          "--epochs",  "--target-accuracy", "--print-config", "--recipe"};

OptionGroup what_options(CompareOptions& options) {
  return {
      "What to compare",
      {
          required(text_option("cluster", "FILE", options.planning.cluster, "Cluster file.")),
          text_option("profile", "FILE", options.planning.profile,
                      "Profile of the model. Without it, the model is measured here."),
          profile_device_option(options.planning),
          profile_batch_option(options.planning),
          recipe_option(options.recipe),
          unset_means(
              "the profile's or the plans'",
              offering(model_names(), text_option("model", "NAME|DIR", options.model,
                                                  "Name of a built-in model, or the folder of an "
                                                  "exported PyTorch model."))),
          required(text_option("data", "DATA", options.data, "Data set, as for hetpipe train.")),
          offering(system_names(),
                   list_option("systems", "SYSTEM,...", options.systems,
                               "Systems to plan for the cluster, train and compare.")),
          list_option(
              "plans", "FILE,...", options.plans,
              "Plans to train and compare instead of --systems, each named after its file."),
          required(text_option(
              "output", "DIR", options.output,
              "Directory for plans, runs and results. Runs that are finished there are skipped.")),
      }};
}

OptionGroup how_options(CompareOptions& options) {
  return {
      "How to compare",
      {
          real_option("epochs", "N", options.epochs, {0, 1e6, true},
                      "Passes over the training samples, in every run."),
          real_option("target-accuracy", "A", options.target_accuracy, {0, 1, true},
                      "Ends each run soon after this share of the test samples is classified "
                      "correctly."),
          integer_option("evaluations", "N", options.evaluations, {1, 1'000'000},
                         "Evaluations per epoch, rounded to whole waves."),
          integers_option("seeds", "N,...", options.seeds, {0},
                          "Trains each of them once with every seed."),
          repeated_option("learning-rate", "[NAME=]R", options.learning_rates,
                          "Learning rate of all, or of one: spectrain=0.05. May be repeated."),
          repeated_option("of", "NAME:OPTION[=VALUE]", options.of_one,
                          "An option of hetpipe train for one of them only: "
                          "hetpipe:clock-distance=4. May be repeated."),
          unset_means("real", choice_option("clock", options.clock, {"real", "simulated"},
                                            "Real time, or the simulator's (hetpipe train --help): "
                                            "every run is then as fast as this machine computes.")),
          flag_option("json", options.json,
                      "Prints compare.json on standard output; other output goes to "
                      "standard error."),
      }};
}

std::vector<std::string> names_of(const CompareOptions& options) {
  std::vector<std::string> names = options.systems;
  for (const std::string& file : options.plans) {
    const std::string base = file.substr(file.find_last_of('/') + 1);
    names.push_back(base.ends_with(".toml") ? base.substr(0, base.size() - 5) : base);
  }
  return names;
}

}  // namespace

OptionTable compare_option_table(CompareOptions& options) {
  return {"compare",
          "Trains the same model with several systems, one after another, and compares speed, "
          "accuracy over time, memory and traffic. Starts mpirun itself. Options of hetpipe train "
          "may follow after --, and apply to all: hetpipe compare ... -- --momentum 0.8",
          {what_options(options), how_options(options)}};
}

void check_compare_options(const CompareOptions& options, Problems& problems) {
  if (options.systems.empty() == options.plans.empty()) {
    problems.add("--systems", options.systems.empty()
                                  ? "is missing (there is nothing to compare). Give --systems "
                                    "hetpipe,ssp or --plans FILE,..."
                                  : "cannot be combined with --plans (both say what to compare). "
                                    "Leave one out.");
  }
  std::set<std::string> seen;
  for (const std::string& name : names_of(options)) {
    const char* where = options.plans.empty() ? "--systems" : "--plans";
    if (!seen.insert(name).second) {
      problems.add(where, "'" + name +
                              "' is given twice (runs are stored by name). Leave one "
                              "out, or rename it.");
    }
  }
  for (const std::string& name : options.systems) {
    const std::vector<std::string> known = system_names();
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    problems.add("--systems", unknown("system", name, known) + ". Choose a known one.");
  }
  if (std::set<int>(options.seeds.begin(), options.seeds.end()).size() != options.seeds.size()) {
    problems.add("--seeds", "contains a seed twice (both runs would be the same). Leave one out.");
  }
  const std::vector<std::string> names{seen.begin(), seen.end()};
  const auto check_name = [&](const std::string& where, const std::string& name) {
    if (seen.contains(name)) return;
    problems.add(where, unknown("name", name, names) + " (nothing with that name is compared). " +
                            "Give one of --systems or --plans.");
  };
  for (const std::string& rate : options.learning_rates) {
    const std::size_t equals = rate.find('=');
    if (equals != rate.npos) check_name("--learning-rate", rate.substr(0, equals));
  }
  for (const std::string& words : options.of_one) {
    const std::size_t colon = words.find(':');
    if (colon == words.npos || colon + 1 == words.size()) {
      problems.add("--of", "'" + words + "' (not of the form NAME:OPTION=VALUE). Write it as in " +
                               "hetpipe:clock-distance=4.");
    } else {
      check_name("--of", words.substr(0, colon));
    }
  }
  for (const std::string& word : options.train_words) {
    if (word.substr(0, word.find('=')) != "--metrics") continue;
    problems.add("--metrics",
                 "cannot be given after -- (all runs would write to one file). Give it to one of "
                 "them: --of NAME:metrics=FILE.prom.");
  }
  std::vector<std::string> behind = options.train_words;
  for (const std::string& words : options.of_one) {
    behind.push_back("--" + words.substr(words.find(':') + 1));
  }
  for (const std::string& word : behind) {
    const std::string name = word.substr(0, word.find('='));
    if (std::find(std::begin(kOwn), std::end(kOwn), name) == std::end(kOwn)) continue;
    problems.add(name,
                 "cannot be given after -- or in --of (compare sets it for every run itself). "
                 "Options that hetpipe compare --help lists go before the --.");
  }
}

}  // namespace hetpipe
