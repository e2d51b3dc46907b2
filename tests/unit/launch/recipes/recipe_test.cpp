// SPDX-License-Identifier: Apache-2.0
#include "launch/recipes/recipe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/text.h"
#include "launch/train/options.h"
#include "launch/train/resume_options.h"

namespace hetpipe {
namespace recipe_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class Recipes : public ::testing::Test {
 protected:
  Recipes()
      : folder_(std::filesystem::temp_directory_path() / format("hetpipe-recipe-%d", ::getpid())) {
    std::filesystem::create_directories(folder_);
  }
  ~Recipes() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& text) const {
    const auto path = folder_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
    return path.string();
  }

  // What hetpipe train makes of these words; its complaints, none of them about what is missing.
  std::string read(TrainOptions& options, std::vector<std::string> words) {
    OptionTable table = train_option_table(options);
    words.insert(words.end(), {"--data", "d"});
    Problems problems;
    table.read(words, problems, [&] { return train_options_below(options, table); });
    text_ = recipe_text(options.recipe, table);
    changed_ = changed_options(table, options);
    std::string all;
    for (const Problem& problem : problems.list()) {
      all += problem.where + ": " + problem.text + "\n";
    }
    return all;
  }

  std::filesystem::path folder_;
  std::string text_, changed_;
};

constexpr const char* kSmall =
    "format = 1\nmodel = \"mlp\"\nminibatch = 12\nepochs = 1.5\nbetas = [0.9, 0.99]\n"
    "optimizer = \"adamw\"\nnesterov = false\ndecay-of = \"matrices\"\n";

TEST_F(Recipes, ATrainingReadsThemAndWhatIsGivenTakesPrecedence) {
  const std::string recipe = write("r.toml", kSmall);
  const std::string config = write("c.toml", "format = 1\nminibatch = 24\n");
  TrainOptions options;
  EXPECT_EQ(read(options, {"--recipe", recipe, "--config", config, "--epochs", "3"}), "");
  EXPECT_EQ(options.model, "mlp");
  EXPECT_EQ(options.planning.minibatch, 24);
  EXPECT_EQ(options.planning.optimizer, "adamw");
  EXPECT_EQ(options.epochs, 3);
  EXPECT_THAT(options.betas, ElementsAre(0.9, 0.99));
  EXPECT_EQ(text_, "recipe " + recipe + "; --epochs was 1.5, is 3; --minibatch was 12, is 24");
  EXPECT_EQ(changed_, "");
}

// What a plan has settled was decided when it was made; the optimizer can be given with it.
TEST_F(Recipes, OfAPlanThatIsThereNothingIsSaid) {
  const std::string recipe = write("r.toml", kSmall);
  TrainOptions options;
  EXPECT_EQ(read(options, {"--recipe", recipe, "--plan", "plan.toml"}), "");
  EXPECT_EQ(options.planning.minibatch, std::nullopt);
  EXPECT_EQ(options.planning.optimizer, "adamw");
  EXPECT_EQ(options.epochs, 1.5);
  Problems problems;
  check_train_options(options, problems);
  EXPECT_TRUE(problems.empty());
}

TEST_F(Recipes, StandAboveTheRunThatIsResumed) {
  const std::string recipe = write("r.toml", kSmall);
  write("run/config.toml",
        "format = 1\nmodel = \"lenet\"\nepochs = 9\nlr-power = 2.0\nminibatch = 6\n");
  for (const bool planned_anew : {false, true}) {
    TrainOptions options;
    std::vector<std::string> words{"--recipe", recipe, "--resume", (folder_ / "run").string()};
    if (planned_anew) words.insert(words.end(), {"--cluster", "cluster.toml"});
    EXPECT_EQ(read(options, words), "");
    EXPECT_EQ(options.epochs, 1.5);
    EXPECT_EQ(options.rate.power, 2);
    EXPECT_EQ(options.model, "mlp");
    EXPECT_EQ(options.planning.minibatch, planned_anew ? std::optional(12) : std::nullopt);
    EXPECT_THAT(changed_, HasSubstr("--epochs was 9, is 1.5"));
    EXPECT_THAT(changed_, HasSubstr("--model was lenet, is mlp"));
    EXPECT_EQ(text_, "recipe " + recipe);
  }
}

// All of the file is checked, whatever the command has an option for.
TEST_F(Recipes, ACommandTakesWhatItHasAnOptionFor) {
  std::string model, minibatch = "none";
  const auto problems_of = [&](const std::string& recipe, const std::vector<std::string>& without) {
    model = "none";
    OptionTable table("try", "Tries.",
                      {{"All",
                        {text_option("model", "NAME", model, "Model."),
                         text_option("minibatch", "N", minibatch, "Samples."),
                         text_option("threads", "N", minibatch, "Of a machine.")}}});
    Problems problems;
    std::string all;
    try {
      table.read(std::vector<std::string>{}, problems,
                 [&] { return options_of_recipe(recipe, table, without); });
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    EXPECT_TRUE(problems.empty());
    return all;
  };
  EXPECT_EQ(problems_of(write("r.toml", kSmall), {"minibatch"}), "");
  EXPECT_EQ(model, "mlp");
  EXPECT_EQ(minibatch, "none");

  const std::string wrong = write("w.toml",
                                  "format = 1\nmodel = \"mlp\"\nlearning-rat = 0.1\nepochs = "
                                  "\"many\"\nlr-schedule = \"stp\"\n");
  const std::string said = problems_of(wrong, {});
  EXPECT_THAT(said, HasSubstr(wrong + ":3: unknown key 'learning-rat'"));
  EXPECT_THAT(said, HasSubstr("learning-rate"));
  EXPECT_THAT(said, HasSubstr(wrong + ":4: epochs = 'many'"));
  EXPECT_THAT(said, HasSubstr(wrong + ":5: lr-schedule = "));
  EXPECT_EQ(model, "none");
}

TEST_F(Recipes, HoldNothingOfAMachineOrARun) {
  for (const std::string key : {"data", "cluster", "output", "device", "init"}) {
    const std::string file = write("m.toml", "format = 1\n" + key + " = \"auto\"\n");
    TrainOptions options;
    try {
      read(options, {"--recipe", file});
      ADD_FAILURE() << key;
    } catch (const UserError& error) {
      EXPECT_THAT(error.what(), HasSubstr(file + ":2: " + key + " (it is of one machine"));
      EXPECT_THAT(error.what(), HasSubstr("give --" + key + " on the command line"));
    }
  }
}

// A new option of hetpipe train belongs to a training, and then here, or to kNotOfATraining.
TEST_F(Recipes, HaveTheseKeys) {
  EXPECT_EQ(join(recipe_keys(), " "),
            "model freeze test-share epochs learning-rate stage-rate momentum nesterov betas nu "
            "alpha epsilon "
            "damping damped-directions weight-decay decay-of rate-of ema clip-norm clip-scope "
            "shuffle seed loss "
            "label-smoothing ignore-index class-weights auxiliary-weights train-transforms "
            "test-transforms normalize mixup-alpha cutmix-alpha lr-schedule lr-warmup lr-steps "
            "lr-every lr-decay lr-power lr-final system schedule weights sync in-flight minibatch "
            "micro-batches objective critical-batch precision "
            "optimizer clock-distance pull scale push-precision round "
            "outer-rate outer-momentum evaluate-every target-accuracy");
}

TEST_F(Recipes, ComeByName) {
  EXPECT_THAT(recipe_names(),
              ElementsAre("bert-mlm", "fashion-resnet", "gpt2", "gpt2-nano", "imagenet-resnet50"));
  for (const std::string& name : recipe_names()) {
    SCOPED_TRACE(name);
    TrainOptions options;
    EXPECT_EQ(read(options, {"--recipe", name, "--cluster", "cluster.toml"}), "");
    Problems problems;
    check_train_options(options, problems);
    EXPECT_TRUE(problems.empty());
    EXPECT_TRUE(options.model && options.planning.minibatch && options.learning_rate);
    EXPECT_EQ(text_, "recipe " + name);
  }
  TrainOptions options;
  EXPECT_THROW(
      {
        try {
          read(options, {"--recipe", "gpt2-nan"});
        } catch (const UserError& error) {
          EXPECT_THAT(error.what(), HasSubstr("--recipe: unknown recipe 'gpt2-nan'"));
          EXPECT_THAT(error.what(), HasSubstr("gpt2-nano"));
          throw;
        }
      },
      UserError);
}

}  // namespace recipe_test
}  // namespace hetpipe
