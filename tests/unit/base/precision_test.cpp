// SPDX-License-Identifier: Apache-2.0
#include "base/precision.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace hetpipe {
namespace precision_test {

using testing::HasSubstr;

std::string error_of(const std::string& text) {
  try {
    precision_choice_from(text);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(PrecisionChoice, OfAllOfSomeAndOfAllButSome) {
  const PrecisionChoice all = precision_choice_from("bf16");
  EXPECT_EQ(all, PrecisionChoice(Precision::bf16));
  EXPECT_EQ(all.of("a100"), Precision::bf16);

  const PrecisionChoice some = precision_choice_from("titan-v=fp16,a100=bf16");
  EXPECT_EQ(some.of("a100"), Precision::bf16);
  EXPECT_EQ(some.of("titan-v"), Precision::fp16);
  EXPECT_EQ(some.of("cpu"), Precision::fp32);
  EXPECT_EQ(precision_choice_from(to_string(some)), some);

  const PrecisionChoice but = precision_choice_from("titan-v=fp16,tf32");
  EXPECT_EQ(but.of("a100"), Precision::tf32);
  EXPECT_EQ(but.of("titan-v"), Precision::fp16);
  EXPECT_EQ(precision_choice_from(to_string(but)), but);
  EXPECT_EQ(to_string(PrecisionChoice()), "fp32");
}

TEST(PrecisionChoice, AutoLeavesItToTheCard) {
  const PrecisionChoice choice = precision_choice_from("auto,titan-v=fp32");
  EXPECT_EQ(choice.of("a100"), std::nullopt);
  EXPECT_EQ(choice.of("titan-v"), Precision::fp32);
  EXPECT_EQ(precision_choice_from(to_string(choice)), choice);
  EXPECT_THAT(error_of("auto,bf16"), HasSubstr("gives every device type two precisions"));
}

TEST(PrecisionChoice, NamesWhatIsWrong) {
  EXPECT_THAT(error_of("fp23"), HasSubstr("unknown precision 'fp23' (did you mean 'fp32'?)"));
  EXPECT_THAT(error_of("a100=fp23"), HasSubstr("unknown precision 'fp23'"));
  EXPECT_THAT(error_of("a100="), HasSubstr("unknown precision ''"));
  EXPECT_THAT(error_of("bf16,"), HasSubstr("'bf16,' gives every device type two precisions"));
  EXPECT_THAT(error_of("bf16,fp16"), HasSubstr("Name the types: TYPE=fp16."));
  EXPECT_THAT(error_of("a100=bf16,a100=fp16"), HasSubstr("device type 'a100' is given twice"));
}

}  // namespace precision_test
}  // namespace hetpipe
