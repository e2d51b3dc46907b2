// SPDX-License-Identifier: Apache-2.0
#include "launch/compare/contenders.h"

#include <algorithm>
#include <cmath>

#include "base/file.h"
#include "base/text.h"
#include "kernels/devices.h"
#include "launch/train/resume_options.h"
#include "partitioner/plan/plan.h"
#include "runtime/model/zoo.h"
#include "runtime/pipeline/measure.h"
#include "runtime/training/job.h"
#include "runtime/training/training_data.h"

namespace hetpipe {
namespace {

namespace fs = std::filesystem;

constexpr int kMeasuredMinibatch = 32;

std::string number(double value) { return format("%.15g", value); }

// "--learning-rate" and the like of one contender, the general before the particular.
std::vector<std::string> words_of(const CompareOptions& options, const std::string& name) {
  std::vector<std::string> words;
  for (const bool particular : {false, true}) {
    for (const std::string& rate : options.learning_rates) {
      const std::size_t equals = rate.find('=');
      if ((equals != rate.npos) != particular) continue;
      if (particular && rate.substr(0, equals) != name) continue;
      words.insert(words.end(), {"--learning-rate", particular ? rate.substr(equals + 1) : rate});
    }
  }
  words.insert(words.end(), options.train_words.begin(), options.train_words.end());
  for (const std::string& word : options.of_one) {
    if (word.substr(0, word.find(':')) == name) {
      words.push_back("--" + word.substr(word.find(':') + 1));
    }
  }
  return words;
}

TrainOptions parse(const CompareOptions& options, std::vector<std::string> words,
                   Problems& problems) {
  const auto add = [&](const char* name, const std::optional<std::string>& value) {
    if (value) words.insert(words.end(), {name, *value});
  };
  add("--cluster", options.planning.cluster);
  add("--data", options.data);
  add("--recipe", options.recipe);
  add("--model", options.model);
  add("--clock", options.clock);
  words.insert(words.end(), {"--epochs", number(options.epochs)});
  if (options.target_accuracy) add("--target-accuracy", number(*options.target_accuracy));
  TrainOptions train;
  OptionTable table = train_option_table(train);
  table.read(words, problems, [&] { return train_options_below(train, table); });
  // A stand-in: that there will be a profile is settled elsewhere.
  const auto profile = std::exchange(train.planning.profile, "profile.toml");
  check_train_options(train, problems);
  train.planning.profile = profile;
  return train;
}

}  // namespace

std::vector<Contender> make_contenders(const CompareOptions& options, Problems& problems) {
  Problems common;
  std::vector<std::string> first = words_of(options, "");
  if (!options.plans.empty()) first.insert(first.end(), {"--plan", options.plans.front()});
  parse(options, first, common);
  for (const Problem& problem : common.list()) problems.add(problem.where, problem.text);
  if (!common.empty()) return {};

  std::vector<Contender> contenders;
  const auto add = [&](const std::string& name, const std::vector<std::string>& extra) {
    std::vector<std::string> words = words_of(options, name);
    words.insert(words.end(), extra.begin(), extra.end());
    Problems own;
    contenders.push_back(
        {.name = name, .options = parse(options, words, own), .plan = {}, .why_not = {}});
    for (const Problem& problem : own.list()) {
      problems.add(problem.where + " (of " + name + ")", problem.text);
    }
  };
  for (const std::string& system : options.systems) add(system, {"--system", system});
  for (const std::string& file : options.plans) {
    add(fs::path(file).filename().replace_extension().string(), {"--plan", file});
  }
  const auto simulated =
      std::count_if(contenders.begin(), contenders.end(),
                    [](const Contender& contender) { return contender.options.clock.simulated(); });
  if (simulated != 0 && simulated != std::ssize(contenders)) {
    problems.add("--of",
                 "gives --clock simulated to some and not to others (their times are not "
                 "comparable). Give --clock to all.");
  }
  return contenders;
}

Profile profile_for(const CompareOptions& options, const ModelChoice& choice,
                    const ImageRules& images, const Cluster& cluster, const fs::path& kept) {
  Profile profile;
  if (options.planning.profile) {
    profile = load_profile_of(options.planning, cluster);
  } else if (fs::exists(kept)) {
    PlanningOptions planning = options.planning;
    planning.profile = kept.string();
    return load_profile_of(planning, cluster);
  } else {
    std::string name = options.model.value_or("");
    if (name.empty() && !options.plans.empty()) name = load_plan(options.plans.front()).model;
    if (name.empty()) {
      throw UserError("--model", "is missing (no profile names one). Give --model NAME; known: " +
                                     join(model_names(), ", ") + ".");
    }
    ModelChoice named = choice;
    named.name = name;
    const Model model = make_model_for(
        named, open_training_data({.model = named, .data = *options.data, .images = images},
                                  Split::train, Parts::labels));
    const std::unique_ptr<Device> device = make_device("cpu", 1);
    profile =
        measure_profile(model, *device, {kMeasuredMinibatch}, {.device = "cpu", .on_batch = {}});
  }
  write_file(kept, to_toml(profile));
  return profile;
}

void plan_contender(Contender& contender, const Cluster& cluster, const Profile& profile) {
  try {
    const PlanningOptions planning = planning_of(contender.options);
    if (contender.options.plan) {
      contender.plan = load_plan(*contender.options.plan, &profile);
      override_plan(planning, cluster, *contender.plan);
    } else {
      contender.plan = make_plan(request_of(planning, cluster, profile));
    }
    check_plan(*contender.plan, contender.options.plan.value_or("plan"), &cluster,
               static_cast<int>(profile.layers.size()));
    Problems problems;
    check_playable(*contender.plan, problems);
    problems.throw_if_any();
  } catch (const UserError& error) {
    contender.why_not = error.what();
  }
}

TrainOptions run_options(const Contender& contender, int seed, int evaluations,
                         std::int64_t samples) {
  TrainOptions run = contender.options;
  const Plan& plan = *contender.plan;
  run.planning = {};  // the plan has settled it
  run.planning.cluster = contender.options.planning.cluster;
  run.seed = seed;
  if (run.evaluate_every == 0) {
    const double wave = static_cast<double>(plan.global_batch() * plan.wave_length());
    run.evaluate_every = std::max(
        1, static_cast<int>(std::lround(static_cast<double>(samples) / wave / evaluations)));
  }
  return run;
}

}  // namespace hetpipe
