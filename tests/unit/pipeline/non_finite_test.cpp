// SPDX-License-Identifier: Apache-2.0
#include "runtime/pipeline/non_finite.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <vector>

#include "kernels/devices.h"
#include "runtime/model/zoo.h"

namespace hetpipe {
namespace non_finite_test {

using testing::HasSubstr;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int kSamplesOfIt = 3;

// One stage of an mlp (flatten linear1 relu1 linear2 relu2 linear3 loss) after a forward of three
// samples.
class StageWithAPass {
 public:
  explicit StageWithAPass(int first, int end)
      : model_(make_model("mlp", {4, 4, 1}, 3)),
        device_(make_device("reference", 1)),
        stream_(device_->make_stream()),
        stage_(model_, ends(first, end), StageId{first == 0 ? 0 : 1}, 1, *device_, *stream_),
        weights_(static_cast<std::size_t>(stage_.parameters().count())) {
    fill_initial(stage_.parameters(), 1, weights_);
    pass_.samples = kSamplesOfIt;
    pass_.keys.resize(kSamplesOfIt);
    if (stage_.reads_samples()) pass_.images = buffer(kSamplesOfIt * 16 * sizeof(float));
    if (stage_.has_loss()) pass_.labels = buffer(kSamplesOfIt * sizeof(std::int32_t));
    for (const Transfer& transfer : stage_.incoming()) {
      pass_.activations_in.push_back(
          {&transfer,
           buffer(static_cast<std::size_t>(stage_.transfer_bytes(transfer, kSamplesOfIt)))});
    }
  }

  float* images() { return pass_.images.as<float>(); }
  float* arrived() { return pass_.activations_in.at(0).data.as<float>(); }
  float& weight(int layer) {
    return weights_[static_cast<std::size_t>(stage_.parameters().of_layer(layer)[0].offset)];
  }
  std::optional<NonFinite> look() {
    stage_.forward(pass_, weights_.data(), nullptr, Mode::train);
    return look_again();
  }
  std::optional<NonFinite> look_again() { return first_non_finite(stage_, pass_, weights_.data()); }
  Pass& pass() { return pass_; }

 private:
  static std::vector<int> ends(int first, int end) {
    std::vector<int> result;
    if (first > 0) result.push_back(first);
    result.push_back(end);
    if (end < 7) result.push_back(7);
    return result;
  }
  Buffer buffer(std::size_t bytes) {
    Buffer made(*device_, *stream_, bytes, MemoryKind::activations);
    std::fill_n(made.data(), bytes, std::byte{0});
    return made;
  }

  Model model_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  Stage stage_;
  std::vector<float> weights_;
  Pass pass_;
};

TEST(FirstNonFinite, NothingWhereAllIsFinite) {
  StageWithAPass whole(0, 7);
  EXPECT_FALSE(whole.look());
}

TEST(FirstNonFinite, ASampleComesFirst) {
  StageWithAPass whole(0, 7);
  whole.images()[16 + 5] = kNan;
  whole.weight(1) = kNan;
  const auto found = whole.look();
  ASSERT_TRUE(found);
  EXPECT_THAT(found->what, HasSubstr("the data (nan, sample 1 of the minibatch)"));
  EXPECT_FALSE(found->sender);
}

TEST(FirstNonFinite, AParameterBeforeItsLayersOutput) {
  StageWithAPass whole(0, 7);
  whole.weight(3) = kInfinity;
  whole.weight(5) = kNan;
  const auto found = whole.look();
  ASSERT_TRUE(found);
  EXPECT_THAT(found->what, HasSubstr("parameter linear2/weight of layer linear2 (inf"));
}

TEST(FirstNonFinite, AnOutputOfFiniteParameters) {
  StageWithAPass whole(0, 7);
  std::fill_n(whole.images() + 2 * 16, 16, 1e38f);
  for (int layer : {1, 3}) whole.weight(layer) = 1e38f;
  const auto found = whole.look();
  ASSERT_TRUE(found);
  // ReLU works in place: what its input was is not known any more.
  EXPECT_THAT(found->what, HasSubstr("the output of layer linear1..relu1 ("));
  EXPECT_THAT(found->what, HasSubstr("sample 2 of the minibatch"));
}

TEST(FirstNonFinite, WhatCameInIsNotThisStagesFault) {
  StageWithAPass last(3, 7);
  last.arrived()[256] = kNan;
  last.weight(3) = kNan;
  const auto found = last.look();
  ASSERT_TRUE(found);
  EXPECT_THAT(found->what, HasSubstr("the output of layer relu1 (nan, sample 1"));
  EXPECT_EQ(found->sender, 0);
}

TEST(FirstNonFinite, OutputsThatAreGoneArePassedOver) {
  StageWithAPass whole(0, 7);
  whole.weight(3) = kNan;
  ASSERT_TRUE(whole.look());
  whole.weight(3) = 0;
  for (std::size_t l = 0; l + 1 < whole.pass().outputs.size(); ++l) {
    whole.pass().outputs[l] = Buffer();
  }
  const auto found = whole.look_again();
  ASSERT_TRUE(found);
  EXPECT_THAT(found->what, HasSubstr("the output of layer flatten..loss (nan"));
}

}  // namespace non_finite_test
}  // namespace hetpipe
