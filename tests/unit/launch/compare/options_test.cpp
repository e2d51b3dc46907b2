// SPDX-License-Identifier: Apache-2.0
#include "launch/compare/options.h"
#include "launch/command/shell_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch/compare/contenders.h"

namespace hetpipe {
namespace compare_options_test {

using testing::ElementsAre;
using testing::HasSubstr;

struct Read {
  CompareOptions options;
  std::vector<Contender> contenders;
  std::string problems;
};

Read read(std::vector<std::string> words) {
  Read result;
  SplitWords split = split_words(words);
  result.options.train_words = split.behind;
  split.own.insert(split.own.end(), {"--cluster", "c", "--data", "d", "--output", "o"});
  OptionTable table = compare_option_table(result.options);
  Problems problems;
  table.read(split.own, problems);
  check_compare_options(result.options, problems);
  if (problems.empty()) result.contenders = make_contenders(result.options, problems);
  for (const Problem& problem : problems.list()) {
    result.problems += problem.where + ": " + problem.text + "\n";
  }
  return result;
}

TEST(CompareOptions, WordsBehindTheDashesAreForTraining) {
  const SplitWords split = split_words({"--a", "1", "--", "--b", "--"});
  EXPECT_THAT(split.own, ElementsAre("--a", "1"));
  EXPECT_THAT(split.behind, ElementsAre("--b", "--"));
  EXPECT_TRUE(split_words({"--a"}).behind.empty());
}

TEST(CompareOptions, EachContenderHasItsOwn) {
  const Read r = read({"--systems",
                       "hetpipe,ssp,asp",
                       "--epochs",
                       "2.5",
                       "--target-accuracy",
                       "0.9",
                       "--learning-rate",
                       "ssp=0.05",
                       "--learning-rate",
                       "0.02",
                       "--of",
                       "hetpipe:clock-distance=4",
                       "--of",
                       "asp:momentum=0",
                       "--",
                       "--momentum",
                       "0.8",
                       "--in-flight=2",
                       "--transport",
                       "threads"});
  ASSERT_EQ(r.problems, "");
  ASSERT_EQ(r.contenders.size(), 3u);
  const auto& [hetpipe, ssp, asp] =
      std::tie(r.contenders[0].options, r.contenders[1].options, r.contenders[2].options);
  EXPECT_EQ(r.contenders[1].name, "ssp");
  EXPECT_EQ(ssp.planning.system, "ssp");
  EXPECT_EQ(hetpipe.learning_rate, 0.02);
  EXPECT_EQ(ssp.learning_rate, 0.05);  // the particular wins, wherever it stands
  EXPECT_EQ(hetpipe.planning.clock_distance, 4);
  EXPECT_EQ(ssp.planning.clock_distance, std::nullopt);
  EXPECT_EQ(ssp.momentum, 0.8);
  EXPECT_EQ(asp.momentum, 0);
  for (const Contender& contender : r.contenders) {
    EXPECT_EQ(contender.options.epochs, 2.5);
    EXPECT_EQ(contender.options.target_accuracy, 0.9);
    EXPECT_EQ(contender.options.planning.in_flight, 2);
    EXPECT_EQ(contender.options.data, "d");
    EXPECT_EQ(contender.options.transport, "threads");
  }
}

TEST(CompareOptions, PlansAreCalledByTheirFiles) {
  const Read r = read({"--plans", "a/b/mine.toml,other", "--learning-rate", "mine=0.1"});
  ASSERT_EQ(r.problems, "");
  ASSERT_EQ(r.contenders.size(), 2u);
  EXPECT_EQ(r.contenders[0].name, "mine");
  EXPECT_EQ(r.contenders[0].options.plan, "a/b/mine.toml");
  EXPECT_EQ(r.contenders[0].options.learning_rate, 0.1);
  EXPECT_EQ(r.contenders[1].name, "other");
  EXPECT_EQ(r.contenders[1].options.learning_rate, std::nullopt);
}

TEST(CompareOptions, MistakesAreFoundBeforeAnythingRuns) {
  EXPECT_THAT(read({}).problems, HasSubstr("--systems: is missing"));
  EXPECT_THAT(read({"--systems", "ssp", "--plans", "p"}).problems,
              HasSubstr("cannot be combined with"));
  EXPECT_THAT(read({"--systems", "ssp,ssp"}).problems, HasSubstr("'ssp' is given twice"));
  EXPECT_THAT(read({"--plans", "a/p.toml,b/p.toml"}).problems, HasSubstr("'p' is given twice"));
  EXPECT_THAT(read({"--systems", "spp"}).problems, HasSubstr("did you mean 'ssp'?"));
  EXPECT_THAT(read({"--systems", "ssp", "--seeds", "1,1"}).problems, HasSubstr("--seeds"));
  EXPECT_THAT(read({"--systems", "ssp", "--learning-rate", "asp=1"}).problems,
              HasSubstr("nothing with that name is compared"));
  EXPECT_THAT(read({"--systems", "ssp", "--of", "momentum=1"}).problems,
              HasSubstr("not of the form NAME:OPTION=VALUE"));
  for (const char* own : {"--seed", "--plan=p", "--json", "--output", "--help"}) {
    EXPECT_THAT(read({"--systems", "ssp", "--", own}).problems,
                HasSubstr("compare sets it for every run itself"))
        << own;
  }
  EXPECT_THAT(read({"--systems", "ssp,asp", "--", "--metrics", "run.prom"}).problems,
              HasSubstr("--metrics: cannot be given after -- (all runs would write to one file)"));
  // Of all alike, once; of one alone, with its name.
  const std::string typo = read({"--systems", "ssp,asp", "--", "--momentun", "1"}).problems;
  EXPECT_THAT(typo, HasSubstr("unknown option '--momentun'"));
  EXPECT_EQ(typo.find("momentun"), typo.rfind("momentun"));
  EXPECT_THAT(read({"--systems", "ssp,gpipe", "--of", "gpipe:clock-distance=1"}).problems,
              HasSubstr("--clock-distance (of gpipe): cannot be combined with --system gpipe"));
  EXPECT_THAT(read({"--systems", "ssp", "--learning-rate", "fast"}).problems,
              HasSubstr("--learning-rate: 'fast' (not a number)"));
}

// 600 samples in waves of 2 * (8 + 8): 18.75 of them in an epoch.
TEST(CompareOptions, EvaluationsAreSpreadOverAnEpoch) {
  Contender contender;
  contender.plan = parse_plan(
      "format = 1\nsystem = \"hetpipe\"\nmodel = \"mlp\"\nminibatch = 8\nin_flight = 2\n"
      "[[virtual_worker]]\n[[virtual_worker.stage]]\nlayers = [0, 7]\ndevices = [\"a:0\"]\n"
      "[[virtual_worker]]\n[[virtual_worker.stage]]\nlayers = [0, 7]\ndevices = [\"b:0\"]\n"
      "[parameter_server]\nnodes = [\"b\"]\n",
      "plan.toml");
  EXPECT_EQ(run_options(contender, 7, 4, 600).evaluate_every, 5);
  EXPECT_EQ(run_options(contender, 7, 1, 600).evaluate_every, 19);
  EXPECT_EQ(run_options(contender, 7, 1000, 600).evaluate_every, 1);
  EXPECT_EQ(run_options(contender, 7, 1, 600).seed, 7);
  contender.options.evaluate_every = 3;
  EXPECT_EQ(run_options(contender, 7, 4, 600).evaluate_every, 3);
}

}  // namespace compare_options_test
}  // namespace hetpipe
