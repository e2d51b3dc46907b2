// SPDX-License-Identifier: Apache-2.0
#include "launch/command/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "base/file.h"

namespace hetpipe {
namespace command_options_test {

using ::testing::HasSubstr;
using ::testing::Not;

struct Values {
  std::string name = "lenet";
  std::string placement = "default";
  std::optional<std::string> file;
  std::optional<int> in_flight;
  double rate = 0.01;
  bool trace = true;
  bool json = false;
  std::vector<std::string> servers;
  std::vector<int> batches{32};
  std::optional<std::string> resume;
};

OptionTable table_of(Values& values) {
  return {"try",
          "Tries options.",
          {{"First",
            {
                text_option("model", "NAME", values.name, "Model."),
                required(text_option("file", "FILE", values.file, "File.")),
                unset_means("the plan's", integer_option("in-flight", "N", values.in_flight,
                                                         {1, 64}, "In flight.")),
                real_option("learning-rate", "R", values.rate, kPositive, "Rate."),
                choice_option("placement", values.placement, {"default", "local"}, "Where."),
            }},
           {"Second",
            {
                on_off_option("trace", values.trace, "Trace."),
                flag_option("json", values.json, "JSON."),
                list_option("servers", "NODE,...", values.servers, "Servers."),
                integers_option("minibatch", "N,...", values.batches, {1}, "Batches."),
                alone_means("latest", text_option("resume", "FILE", values.resume, "Goes on.")),
            }}}};
}

// All problems of these words, one per line; empty: none.
std::string problems_of(Values& values, const std::vector<std::string>& words) {
  OptionTable table = table_of(values);
  Problems problems;
  table.read(words, problems);
  try {
    problems.throw_if_any();
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

class ConfigFile {
 public:
  explicit ConfigFile(const std::string& text) {
    std::string pattern = (std::filesystem::temp_directory_path() / "options.XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw SystemError("mkdtemp");
    folder_ = pattern;
    write_file(path(), text);
  }
  ~ConfigFile() { std::filesystem::remove_all(folder_); }
  std::string path() const { return (folder_ / "run.toml").string(); }

 private:
  std::filesystem::path folder_;
};

TEST(Options, FillTheVariablesOfTheirRows) {
  Values values;
  EXPECT_EQ(
      problems_of(values, {"--file", "a b", "--in-flight=4", "--learning-rate", "1e-3", "--trace",
                           "off", "--json", "--servers", "n0,n1", "--minibatch", "8,16"}),
      "");
  EXPECT_EQ(values.file, "a b");
  EXPECT_EQ(values.in_flight, 4);
  EXPECT_EQ(values.rate, 1e-3);
  EXPECT_FALSE(values.trace);
  EXPECT_TRUE(values.json);
  EXPECT_EQ(values.servers, (std::vector<std::string>{"n0", "n1"}));
  EXPECT_EQ(values.batches, (std::vector<int>{8, 16}));
  EXPECT_EQ(values.name, "lenet");
}

TEST(Options, AValueMayBeLeftOutWhereTheRowSaysWhatThatMeans) {
  Values alone;
  EXPECT_EQ(problems_of(alone, {"--file", "f", "--resume", "--json"}), "");
  EXPECT_EQ(alone.resume, "latest");
  Values with;
  EXPECT_EQ(problems_of(with, {"--file", "f", "--resume", "c.h5"}), "");
  EXPECT_EQ(with.resume, "c.h5");
}

TEST(Options, AllProblemsAtOnce) {
  Values values;
  const std::string text = problems_of(
      values, {"--in-fligth", "4", "--in-flight", "0", "--learning-rate", "fast", "--placement",
               "locale", "stray", "--trace", "maybe", "--minibatch", "8,x", "--servers"});
  EXPECT_THAT(text, HasSubstr("unknown option '--in-fligth' (did you mean '--in-flight'?)"));
  EXPECT_THAT(text, HasSubstr("--in-flight: '0' (must be at least 1). Give a whole number of at "
                              "least 1 and at most 64."));
  EXPECT_THAT(text, HasSubstr("--learning-rate: 'fast' (not a number). Give a number above 0."));
  EXPECT_THAT(text, HasSubstr("--placement: unknown value 'locale' (did you mean 'local'?)"));
  EXPECT_THAT(text, HasSubstr("unexpected argument 'stray'"));
  EXPECT_THAT(text, HasSubstr("--trace: 'maybe' (neither on nor off). Give on or off."));
  EXPECT_THAT(text, HasSubstr("--minibatch: 'x' (not a whole number)"));
  EXPECT_THAT(text,
              HasSubstr("--servers: needs a value (none was given). Write --servers NODE,..."));
  EXPECT_THAT(text, HasSubstr("--file: is missing"));
}

TEST(Options, NumbersAreCheckedToTheirLastCharacter) {
  for (const char* word : {"4x", "", " 4", "4.5", "0x4", "99999999999999999999", "-1", "65"}) {
    Values values;
    EXPECT_NE(problems_of(values, {"--file=f", std::string("--in-flight=") + word}), "") << word;
    EXPECT_EQ(values.in_flight, std::nullopt) << word;
  }
  for (const char* word : {"0", "-0.5", "nan", "inf", "1,5", "1e999"}) {
    Values values;
    EXPECT_NE(problems_of(values, {"--file=f", "--learning-rate", word}), "") << word;
    EXPECT_EQ(values.rate, 0.01) << word;
  }
}

TEST(Options, TheCommandLineWinsOverTheFile) {
  const ConfigFile config(
      "format = 1\nfile = \"from-file\"\nin-flight = 3\nlearning-rate = 0.5\ntrace = false\n"
      "servers = [\"n0\", \"n1\"]\nminibatch = [8, 16]\n");
  Values values;
  EXPECT_EQ(problems_of(values, {"--in-flight", "5", "--config", config.path()}), "");
  EXPECT_EQ(values.file, "from-file");
  EXPECT_EQ(values.in_flight, 5);
  EXPECT_EQ(values.rate, 0.5);
  EXPECT_FALSE(values.trace);
  EXPECT_EQ(values.servers, (std::vector<std::string>{"n0", "n1"}));
  EXPECT_EQ(values.batches, (std::vector<int>{8, 16}));
}

// A resumed run: its options hold where nothing else is given.
TEST(Options, AFileBelowHoldsWhatNobodyGives) {
  const ConfigFile config("format = 1\nin-flight = 8\n");
  const ConfigFile run(
      "format = 1\nmodel = \"mlp\"\nfile = \"f\"\nlearning-rate = 0.003\nin-flight = 4\n"
      "trace = false\nservers = [\"a\", \"b\"]\nresume = \"x\"\n");
  Values values;
  OptionTable table = table_of(values);
  Problems problems;
  const std::vector<std::string> words{"--config", config.path(), "--learning-rate",
                                       "0.01",     "--servers",   "a,b"};
  table.read(words, problems, [&] {
    EXPECT_EQ(values.in_flight, 8);  // what was given is known by then
    return std::vector{OptionsBelow{.file = run.path(), .without = {"resume"}}};
  });
  EXPECT_TRUE(problems.empty());
  EXPECT_EQ(values.name, "mlp");
  EXPECT_EQ(values.file, "f");
  EXPECT_EQ(values.rate, 0.01);
  EXPECT_EQ(values.in_flight, 8);
  EXPECT_FALSE(values.trace);
  EXPECT_EQ(values.servers, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(values.resume, std::nullopt);
  ASSERT_EQ(table.changes().size(), 2u);
  EXPECT_EQ(table.changes()[0].name, "in-flight");
  EXPECT_EQ(table.changes()[0].was, "4");
  EXPECT_EQ(table.changes()[0].is, "8");
  EXPECT_EQ(table.changes()[1].name, "learning-rate");
}

// The file of another command, with options that this one does not have.
TEST(Options, OfAFileBelowOnlyWhatIsAskedFor) {
  const ConfigFile run(
      "format = 1\nnobody-knows = 3\nfile = \"f\"\nlearning-rate = 0.003\nin-flight = 4\n");
  Values values;
  OptionTable table = table_of(values);
  Problems problems;
  table.read(std::vector<std::string>{}, problems, [&] {
    return std::vector{
        OptionsBelow{.file = run.path(), .without = {}, .only = {"file", "in-flight"}}};
  });
  EXPECT_TRUE(problems.empty());
  EXPECT_EQ(values.file, "f");
  EXPECT_EQ(values.in_flight, 4);
  EXPECT_EQ(values.rate, 0.01);
}

TEST(Options, WhatOtherProgramsCallThemIsSuggested) {
  std::string rate;
  OptionTable table(
      "try", "Tries.",
      {{"All", {elsewhere({"lr"}, text_option("learning-rate", "R", rate, "Rate."))}}});
  Problems problems;
  table.read(std::vector<std::string>{"--lr", "0.1"}, problems);
  ASSERT_EQ(problems.list().size(), 1u);
  EXPECT_EQ(problems.list().front().text,
            "unknown option '--lr' (here it is --learning-rate). See hetpipe try --help.");
}

// Found by damaging files: numbers that TOML can write, and that no option takes.
TEST(Options, AFilesNumbersMayBeNoNumbers) {
  const ConfigFile config("format = 1\nlearning-rate = nan\nin-flight = -inf\nservers = [nan]\n");
  Values values;
  const std::string text = problems_of(values, {"--file", "f", "--config", config.path()});
  EXPECT_THAT(text, HasSubstr("run.toml:2: learning-rate = 'nan' (not a finite number)"));
  EXPECT_THAT(text, HasSubstr("run.toml:3: in-flight = '-inf' (not a whole number)"));
}

TEST(Options, AFilesProblemsNameTheirLines) {
  const ConfigFile config(
      "format = 2\nin-fligth = 3\nin-flight = -1\nlearning-rate = [[1]]\nconfig = \"x\"\n");
  Values values;
  const std::string text = problems_of(values, {"--file", "f", "--config", config.path()});
  EXPECT_THAT(text, HasSubstr("run.toml:1: format"));
  EXPECT_THAT(text, HasSubstr("run.toml:2: unknown key 'in-fligth' (did you mean 'in-flight'?)"));
  EXPECT_THAT(text, HasSubstr("run.toml:3: in-flight = '-1' (must be at least 1)"));
  EXPECT_THAT(text, HasSubstr("run.toml:4: learning-rate (a table or a date"));
  EXPECT_THAT(text, HasSubstr("run.toml:5: config (allowed on the command line only)"));
}

TEST(Options, AMissingFormatAndAMissingFileAreProblems) {
  const ConfigFile config("in-flight = 3\n");
  Values values;
  EXPECT_THAT(problems_of(values, {"--file=f", "--config", config.path()}),
              HasSubstr("format is missing"));
  Values others;
  EXPECT_THAT(problems_of(others, {"--config", config.path() + ".not", "--in-flight", "x"}),
              ::testing::AllOf(HasSubstr("run.toml.not: cannot be read"),
                               HasSubstr("--in-flight: 'x'"), HasSubstr("--file: is missing")));
}

TEST(Options, ThePrintedConfigurationReadsBackAsTheSame) {
  Values values;
  OptionTable table = table_of(values);
  Problems problems;
  EXPECT_EQ(
      table.read(std::vector<std::string>{"--in-flight", "7", "--learning-rate", "0.1", "--servers",
                                          "a,b\"c", "--resume", "--trace", "off", "--print-config"},
                 problems),
      OptionTable::Asked::configuration);
  EXPECT_TRUE(problems.empty());
  const std::string printed = table.configuration();
  EXPECT_THAT(printed, HasSubstr("in-flight = 7\n"));
  EXPECT_THAT(printed, HasSubstr("learning-rate = 0.1\n"));
  EXPECT_THAT(printed, Not(HasSubstr("file =")));
  EXPECT_THAT(printed, Not(HasSubstr("print-config =")));

  const ConfigFile config(printed);
  Values again;
  OptionTable second = table_of(again);
  second.read(std::vector<std::string>{"--config", config.path(), "--print-config"}, problems);
  problems.throw_if_any();
  EXPECT_EQ(second.configuration(), printed);
  EXPECT_EQ(again.servers, (std::vector<std::string>{"a", "b\"c"}));
  EXPECT_EQ(again.resume, "latest");
}

TEST(Options, HelpWinsOverProblemsAndShowsDefaults) {
  Values values;
  OptionTable table = table_of(values);
  Problems problems;
  EXPECT_EQ(table.read(std::vector<std::string>{"--nonsense", "-h"}, problems),
            OptionTable::Asked::help);
  const std::string help = table.help();
  EXPECT_THAT(help, HasSubstr("usage: hetpipe try [options]"));
  EXPECT_THAT(help, HasSubstr("In flight. (default: the plan's)"));
  EXPECT_THAT(help, HasSubstr("Rate. (default: 0.01)"));
  EXPECT_THAT(help, HasSubstr("File. (required)"));
  EXPECT_THAT(help, HasSubstr("--resume [FILE]"));
  EXPECT_THAT(help, HasSubstr("--print-config"));
}

struct Places {
  std::string first;
  std::vector<std::string> rest;
  bool json = false;
};

OptionTable places_table(Places& places) {
  return {"try it",
          "Tries words without a name.",
          {{"What",
            {
                argument(text_option("first", "A", places.first, "One.")),
                arguments("rest", "B", places.rest, "More."),
                flag_option("json", places.json, "JSON."),
            }}}};
}

std::string places_problems(Places& places, const std::vector<std::string>& words) {
  OptionTable table = places_table(places);
  Problems problems;
  table.read(words, problems);
  std::string text;
  for (const Problem& problem : problems.list()) {
    text += problem.where + ": " + problem.text + "\n";
  }
  return text;
}

TEST(Arguments, FillTheirRowsInOrder) {
  Places places;
  EXPECT_EQ(places_problems(places, {"x", "--json", "y", "z,z"}), "");
  EXPECT_EQ(places.first, "x");
  EXPECT_EQ(places.rest, (std::vector<std::string>{"y", "z,z"}));
  EXPECT_TRUE(places.json);
}

TEST(Arguments, MissingOnesAreNamed) {
  Places places;
  EXPECT_EQ(places_problems(places, {}),
            "A: is missing (hetpipe try it requires it). Give hetpipe try it A B....\n"
            "B...: is missing (hetpipe try it requires it). Give hetpipe try it A B....\n");
  EXPECT_THAT(places_problems(places, {"x"}), HasSubstr("B...: is missing"));
}

TEST(Arguments, HaveNoOptionOfTheirName) {
  Places places;
  EXPECT_THAT(places_problems(places, {"--first", "x", "y", "z"}),
              HasSubstr("unknown option '--first'"));
}

TEST(Arguments, OddWordsAreRefused) {
  Places places;
  EXPECT_THAT(places_problems(places, {"x", "y", "-z"}), HasSubstr("unexpected argument '-z'"));
  EXPECT_THAT(places_problems(places, {"x", ""}), HasSubstr("B: '' (is empty)"));
}

TEST(Arguments, StandInHelpAndNotInAConfiguration) {
  Places places;
  OptionTable table = places_table(places);
  EXPECT_THAT(table.help(), HasSubstr("usage: hetpipe try it A B... [options]"));
  EXPECT_THAT(table.help(), HasSubstr("\n  A               One.\n  B...            More.\n"));
  EXPECT_THAT(table.configuration(), Not(HasSubstr("first")));
}

}  // namespace command_options_test
}  // namespace hetpipe
