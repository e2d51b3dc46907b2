// SPDX-License-Identifier: Apache-2.0
#include "runtime/training/training_data.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "runtime/model/zoo.h"
#include "tests/unit/data/scratch_folder.h"

namespace hetpipe {
namespace training_data_test {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(TrainingData, AModelThatSeesAllTokensFillsInMaskedOnes) {
  const ScratchFolder folder;
  write_plain(folder / "text.txt", "to be or not to be that is the question whether tis nobler in");
  const std::string text = "text:" + (folder / "text.txt").string() + ",T=4";
  const Dataset next = open_training_data({{"gpt2-tiny"}, text}, Split::train, Parts::both);
  EXPECT_EQ(next.mask_token, std::nullopt);
  EXPECT_EQ(make_model_for({"gpt2-tiny"}, next).classes(), next.classes);
  const Dataset masked = open_training_data({{"bert-tiny"}, text}, Split::train, Parts::both);
  EXPECT_EQ(masked.mask_token, next.classes);
  const Model bert = make_model_for({"bert-tiny"}, masked);
  EXPECT_EQ(bert.vocabulary(), next.classes + 1);
  EXPECT_EQ(bert.predictions_per_sample(), 1);  // 15 % of 4

  // Where nothing is masked it would see its labels.
  const std::string refusal = error_of<UserError>([&] { make_model_for({"bert-tiny"}, next); });
  EXPECT_THAT(refusal, AllOf(HasSubstr("model 'bert-tiny'"), HasSubstr("sees all tokens of "),
                             HasSubstr("text.txt"), HasSubstr("which is its label"),
                             HasSubstr("gpt2-tiny")));
}

}  // namespace training_data_test
}  // namespace hetpipe
