// SPDX-License-Identifier: Apache-2.0
#include "launch/documentation/manual.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hetpipe {
namespace manual_test {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(RoffText, PutsEverySentenceOnALineOfItsOwn) {
  EXPECT_EQ(roff_text("One. Two (of them.) And so on ... to the end."),
            "One.\nTwo (of them.)\nAnd so on ... to the end.\n");
}

TEST(RoffText, NothingIsTakenForARequestOrAnEscape) {
  EXPECT_EQ(roff_text("'quoted' a\\b"), "\\&'quoted' a\\eb\n");
  EXPECT_EQ(roff_text(".TH ~/x ^2 `y`"), "\\&.TH \\(ti/x \\(ha2 \\(gay\\(ga\n");
}

TEST(RoffText, OptionsKeepTheirHyphens) {
  EXPECT_EQ(roff_text("give --in-flight, a well-known one"),
            "give \\-\\-in\\-flight, a well-known one\n");
}

TEST(RoffText, WrapsLongLines) {
  const std::string a(50, 'a'), b(50, 'b');
  EXPECT_EQ(roff_text(a + ' ' + b), a + '\n' + b + '\n');
}

Option written(const std::string& value) {
  Option option;
  option.value = value;
  return option;
}

TEST(OfferedValues, SmallLettersAreTypedAsTheyAre) {
  EXPECT_THAT(offered_values(written("np|ed|hd")).words, ElementsAre("np", "ed", "hd"));
  EXPECT_THAT(offered_values(written("1|3")).words, ElementsAre("1", "3"));
  EXPECT_THAT(offered_values(written("P|KIND=P,...")).words, IsEmpty());
  EXPECT_THAT(offered_values(written("[NAME=]R")).words, IsEmpty());
  EXPECT_THAT(offered_values(written("")).words, IsEmpty());
}

TEST(OfferedValues, FilesAndFoldersAreCalledSo) {
  const OfferedValues either = offered_values(written("FILE|slurm|ranks"));
  EXPECT_TRUE(either.files);
  EXPECT_THAT(either.words, ElementsAre("slurm", "ranks"));
  EXPECT_TRUE(offered_values(written("DATA")).files);
  EXPECT_TRUE(offered_values(written("DIR")).folders);
  EXPECT_FALSE(offered_values(written("DIR")).files);
  EXPECT_FALSE(offered_values(written("N")).files);
}

TEST(OfferedValues, ListsAreKnownByTheirDots) {
  EXPECT_TRUE(offered_values(written("SYSTEM,...")).list);
  EXPECT_FALSE(offered_values(written("SYSTEM")).list);
}

TEST(OfferedValues, WordsThatHelpListsAreOfferedToo) {
  EXPECT_THAT(offered_values(offering({"a", "b"}, written("S"))).words, ElementsAre("a", "b"));
}

TEST(FirstSentence, EndsWhereTheRestExplains) {
  EXPECT_EQ(first_sentence("Model of the zoo."), "Model of the zoo");
  EXPECT_EQ(first_sentence("Keeps so many; 0: all."), "Keeps so many");
  EXPECT_EQ(first_sentence("What computes: a GPU. Or not."), "What computes");
}

// Every command of the program is there, and those that are groups come before their actions.
TEST(DocumentedCommands, AreThoseOfTheProgram) {
  std::vector<std::string> names;
  std::vector<std::string> groups;
  for_each_command([&](const DocumentedCommand& command) {
    (command.group != nullptr ? groups : names).push_back(command.name);
    EXPECT_NE(command.group != nullptr, command.table != nullptr);
    if (command.table != nullptr) {
      EXPECT_EQ(command.name, "hetpipe " + command.table->command());
    }
  });
  EXPECT_THAT(groups, ElementsAre("hetpipe checkpoint", "hetpipe trace", "hetpipe data"));
  EXPECT_THAT(names, testing::IsSupersetOf({"hetpipe plan", "hetpipe checkpoint info"}));
  EXPECT_EQ(manual_name("hetpipe checkpoint info"), "hetpipe-checkpoint-info");
}

}  // namespace manual_test
}  // namespace hetpipe
