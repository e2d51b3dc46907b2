// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "base/file.h"
#include "base/hash.h"
#include "base/text.h"
#include "launch/command/shell_words.h"
#include "launch/command/subcommand.h"
#include "launch/command/version.h"
#include "launch/compare/contenders.h"
#include "launch/compare/options.h"
#include "launch/compare/report.h"
#include "launch/compare/results.h"
#include "launch/launcher/child.h"
#include "launch/launcher/launched.h"
#include "launch/recipes/recipe.h"
#include "launch/report/leave_report.h"
#include "launch/train/prepare_parts.h"
#include "partitioner/plan/plan_table.h"
#include "runtime/training/job.h"
#include "runtime/training/training_data.h"

// OUTPUT/
//   profile.toml  plans/NAME.toml         what was planned from, and what came of it
//   runs/NAME-seed-S.toml .log            a run's options, and what it said
//   runs/NAME-seed-S/                     its run directory; result.json says that it is done
//   compare.json compare.md accuracy.svg report.html  rewritten by every call
namespace hetpipe {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostSaid = 400;  // characters of a failed run's last words

class Session {
 public:
  Session(const CompareOptions& options, const std::vector<Contender>& contenders,
          const Cluster& cluster, const Profile& profile, const Dataset& data, std::FILE* out)
      : options_(options), contenders_(contenders), cluster_(cluster), out_(out) {
    samples_ = data.size;
    made_of_ =
        format("# cluster %s, profile %s, data %s\n", to_hex(hash_text(to_toml(cluster))).c_str(),
               to_hex(hash_text(to_toml(profile))).c_str(), to_hex(data.fingerprint).c_str());
    for (const Contender& contender : contenders) {
      Entry& entry = comparison_.entries.emplace_back();
      entry.name = contender.name;
      entry.system = contender.plan ? contender.plan->system : contender.name;
      entry.why_not = contender.why_not;
      if (contender.plan) {
        for (std::size_t i = 0; i < contender.plan->virtual_workers.size(); ++i) {
          entry.minibatches.push_back(
              contender.plan->minibatch_of(VirtualWorkerId{static_cast<int>(i)}));
        }
        entry.learning_rate = decide_optimizer(contender.options, *contender.plan).learning_rate;
      }
      comparison_.simulated |= contender.options.clock.simulated();
    }
  }

  Comparison& comparison() { return comparison_; }

  // Finished runs were made with what is asked for now: what was measured under other conditions
  // is neither taken for an answer nor thrown away.
  void check_kept() const {
    Problems problems;
    for (const Contender& contender : contenders_) {
      for (const int seed : options_.seeds) {
        if (!contender.why_not.empty()) continue;
        const auto kept = result(contender, seed);
        if (!kept || !kept->complete() || is_same(contender, seed, *kept)) continue;
        problems.add(run(contender, seed).string(),
                     "was made with other options or another plan (it is not comparable). Give "
                     "another --output, or remove it.");
      }
    }
    problems.throw_if_any();
  }

  void write_plans() const {
    fs::create_directories(folder() / "plans");
    fs::create_directories(folder() / "runs");
    for (const Contender& contender : contenders_) {
      if (contender.plan) write_file(plan_file(contender), to_toml(*contender.plan));
    }
  }

  // Seed by seed, so that what is done compares. Returns the first failure's exit code.
  int run_all() {
    int code = 0;
    int number = 0;
    const auto playable = static_cast<std::size_t>(
        std::count_if(contenders_.begin(), contenders_.end(),
                      [](const Contender& contender) { return contender.why_not.empty(); }));
    for (const int seed : options_.seeds) {
      for (std::size_t i = 0; i < contenders_.size(); ++i) {
        if (!contenders_[i].why_not.empty()) continue;
        std::fprintf(out_, "[%d/%zu] %s, seed %d: ", ++number, playable * options_.seeds.size(),
                     contenders_[i].name.c_str(), seed);
        std::fflush(out_);
        const int one = run_one(contenders_[i], seed, comparison_.entries[i]);
        if (code == 0) code = one;
      }
    }
    return code;
  }

  // Of the first seed, for a page that shows them side by side.
  std::vector<fs::path> ended_runs() const {
    std::vector<fs::path> ended;
    for (const Contender& contender : contenders_) {
      if (!contender.plan) continue;
      const fs::path one = run(contender, options_.seeds.front());
      if (fs::exists(one / "result.json")) ended.push_back(one);
    }
    return ended;
  }

 private:
  fs::path folder() const { return *options_.output; }
  fs::path plan_file(const Contender& contender) const {
    return folder() / "plans" / (contender.name + ".toml");
  }
  fs::path run(const Contender& contender, int seed) const {
    return folder() / "runs" / format("%s-seed-%d", contender.name.c_str(), seed);
  }
  static fs::path with(fs::path path, const char* ending) { return path += ending; }

  std::string configuration(const Contender& contender, int seed) const {
    TrainOptions run_of = run_options(contender, seed, options_.evaluations, samples_);
    run_of.plan = plan_file(contender).string();
    run_of.planning.profile = (folder() / "profile.toml").string();
    run_of.output = run(contender, seed).string();
    return train_option_table(run_of).configuration() + made_of_;
  }

  std::optional<RunResult> result(const Contender& contender, int seed) const {
    return try_read_result(run(contender, seed) / "result.json", seed, *contender.plan, cluster_);
  }

  bool is_same(const Contender& contender, int seed, const RunResult& kept) const {
    const fs::path file = with(run(contender, seed), ".toml");
    Plan plan = parse_plan(to_toml(*contender.plan), plan_file(contender).string());
    plan.model = comparison_.model;  // as training has it
    return fs::exists(file) && read_file(file) == configuration(contender, seed) &&
           kept.plan_hash == to_hex(plan_hash(plan));
  }

  std::vector<std::string> words(const Contender& contender, int seed) const {
    const std::vector<std::string> train{fs::read_symlink("/proc/self/exe").string(), "train",
                                         "--config", with(run(contender, seed), ".toml").string()};
    if (contender.options.transport == "threads") return train;
    Cluster cluster = cluster_;
    if (contender.options.clock.simulated()) cluster.intra_node.emulate = true;  // all run here
    const std::string line =
        mpirun_line(*contender.plan, cluster, shell_words(train), contender.options.threads);
    return {"/bin/sh", "-c", "exec " + line};
  }

  int run_one(const Contender& contender, int seed, Entry& entry) {
    if (const auto kept = result(contender, seed); kept && kept->complete()) {
      std::fprintf(out_, "already finished\n");
      entry.runs.push_back(*kept);
      return 0;
    }
    if (Interrupts::asked()) {
      std::fprintf(out_, "not started\n");
      ++entry.not_run;
      return 0;
    }
    const fs::path place = run(contender, seed);
    fs::remove_all(place);  // begun and not finished
    write_file(with(place, ".toml"), configuration(contender, seed));
    const fs::path said = with(place, ".log");
    const int code = run_child(words(contender, seed), said, Interrupts::asked);
    if (Interrupts::asked()) {
      std::fprintf(out_, "interrupted\n");
      ++entry.not_run;
      return 0;
    }
    const auto made = result(contender, seed);
    if (code != 0 || !made || !made->complete()) {
      entry.failures.push_back({seed, code, last_words(said)});
      std::fprintf(out_, "exit code %d, see %s\n", code, said.c_str());
      return code == 0 ? static_cast<int>(ExitCode::system) : code;
    }
    std::fprintf(out_, "%.0f samples/s", made->throughput);
    if (made->test_accuracy) std::fprintf(out_, ", %.2f %%", 100 * *made->test_accuracy);
    std::fprintf(out_, " after %s\n", format_seconds(made->seconds).c_str());
    entry.runs.push_back(*made);
    return 0;
  }

  // The last line before those that the launcher draws a frame around.
  static std::string last_words(const fs::path& said) {
    std::string last = "it printed nothing";
    for (const std::string& line : split(read_file(said), '\n')) {
      if (line.starts_with("-----")) break;
      if (!line.empty()) last = line;
    }
    return last.size() <= kMostSaid ? last : last.substr(0, kMostSaid) + " ...";
  }

  const CompareOptions& options_;
  const std::vector<Contender>& contenders_;
  const Cluster& cluster_;
  std::FILE* out_;
  std::int64_t samples_ = 0;
  std::string made_of_;  // what the options name, by hash
  Comparison comparison_;
};

void check_place(const std::vector<Contender>& contenders) {
  if (const auto here = launched()) {
    throw UserError("", format("compare was started by %s (it starts mpirun itself, once per "
                               "run). Start it without a launcher, by hand or in a batch script.",
                               here->by.c_str()));
  }
  const bool wants =
      std::any_of(contenders.begin(), contenders.end(),
                  [](const Contender& contender) { return contender.options.transport == "mpi"; });
  if (wants && find_program("mpirun").empty()) {
    throw UserError("",
                    "mpirun was not found (every run is started with it). Add it to PATH, or give "
                    "-- --transport threads.");
  }
}

}  // namespace

int compare_command(const Invocation& how) {
  CompareOptions options;
  SplitWords words = split_words(how.arguments);
  options.train_words = std::move(words.behind);
  OptionTable table = compare_option_table(options);
  std::vector<Contender> contenders;
  const auto check = [&](Problems& problems) {
    if (!problems.empty()) return;
    check_compare_options(options, problems);
    if (problems.empty()) contenders = make_contenders(options, problems);
  };
  // Rates are here those of each one; the runs read them from the recipe.
  if (!read_options(table, {how.program, words.own, how.reader}, check,
                    [&] { return options_of_recipe(options.recipe, table, {"learning-rate"}); })) {
    return 0;
  }
  check_place(contenders);
  std::FILE* out = options.json ? stderr : stdout;

  const Cluster cluster = load_cluster(*options.planning.cluster);
  ModelChoice choice = choice_of(contenders.front().options);  // its loss is that of every run
  if (choice.name.empty()) choice.name = options.model.value_or("");
  const TrainingData of{.model = choice,
                        .data = *options.data,
                        .test_share = contenders.front().options.test_share,  // of every run
                        .images = image_rules(contenders.front().options.samples)};
  if (options.target_accuracy && !has_test_samples(of)) {
    throw UserError("--target-accuracy", "cannot be reached (" + *options.data +
                                             " holds no test samples). Leave it out.");
  }
  const Dataset data = open_training_data(
      {.model = choice, .data = *options.data, .images = of.images}, Split::train, Parts::labels);
  const fs::path folder = *options.output;
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    throw UserError("--output", folder.string() + " cannot be created (" + error.message() +
                                    "). Give another folder.");
  }
  const Profile profile = profile_for(options, choice, of.images, cluster, folder / "profile.toml");
  for (Contender& contender : contenders) {
    if (!contender.options.model) contender.options.model = profile.model;
    plan_contender(contender, cluster, profile);
  }

  Session session(options, contenders, cluster, profile, data, out);
  Comparison& comparison = session.comparison();
  std::vector<std::string> typed{how.program, "compare"};
  typed.insert(typed.end(), how.arguments.begin(), how.arguments.end());
  comparison.command = shell_words(typed);
  comparison.version = first_line(version_text());
  comparison.cluster = *options.planning.cluster;
  comparison.model = options.model.value_or(profile.model);
  comparison.data = *options.data;
  comparison.dataset_size = data.size;
  comparison.epochs = options.epochs;
  comparison.target_accuracy = options.target_accuracy;
  comparison.seeds = options.seeds;
  session.check_kept();
  session.write_plans();

  const Interrupts interrupts;
  const int code = session.run_all();
  write_file(folder / "compare.json", comparison_json(comparison));
  write_file(folder / "compare.md", comparison_markdown(comparison));
  write_file(folder / "accuracy.svg", accuracy_svg(comparison));
  const std::vector<fs::path> ended = session.ended_runs();
  const bool page = !ended.empty() && leave_report(ended, folder / "report.html");
  std::fprintf(out, "\n%s\nwritten to %s: compare.json, compare.md, accuracy.svg%s\n",
               comparison_text(comparison).c_str(), folder.c_str(), page ? ", report.html" : "");
  if (options.json) std::fputs(comparison_json(comparison).c_str(), stdout);
  if (Interrupts::asked()) {
    std::fprintf(out, "interrupted: run the same command again to continue\n");
    return static_cast<int>(ExitCode::stopped);
  }
  const bool ours = code == static_cast<int>(ExitCode::user) ||
                    code == static_cast<int>(ExitCode::numerical) ||
                    code == static_cast<int>(ExitCode::stopped);
  return code == 0 || ours ? code : static_cast<int>(ExitCode::system);
}

}  // namespace hetpipe
