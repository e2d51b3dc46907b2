// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/own/loss.h"

#include <bit>
#include <limits>
#include <numeric>

#include "base/masked_tokens.h"
#include "kernels/reference/loss.h"
#include "tests/unit/kernels/cuda/reductions/arrays.h"

namespace hetpipe::cuda {
namespace loss_test {

using namespace test;
using Numbers = std::vector<double>;

template <class T>
class OwnLoss : public testing::Test {};
TYPED_TEST_SUITE(OwnLoss, ElementTypes);

struct Losses {
  Array<float> loss;
  Array<std::int32_t> correct;
  Array<SoftmaxSums> kept;
  Array<std::int32_t> outside = Array<std::int32_t>(std::vector<int>{0});
  explicit Losses(const LossSizes& s) : loss(s.batch), correct(s.batch), kept(s.rows()) {}
  std::vector<std::byte> bits() const { return bits_of(loss, correct, kept, outside); }
};

template <class T>
Losses losses(const LossSizes& s, float smoothing, const Array<T>& x,
              const Array<std::int32_t>& labels) {
  Losses r(s);
  const auto space = scratch(loss_scratch_bytes(s));
  loss_forward(s, smoothing, x.data(), labels.data(), r.loss.data(), r.correct.data(),
               r.kept.data(), r.outside.data(), space.data(), nullptr);
  return r;
}

// A third of the labels are the largest logit's.
std::vector<std::int32_t> labels_for(const LossSizes& s, const Numbers& x) {
  std::vector<std::int32_t> labels;
  std::mt19937 random(41);
  for (std::int64_t r = 0; r < s.rows(); ++r) {
    const auto first = x.begin() + r * s.classes;
    const auto best = std::max_element(first, first + s.classes) - first;
    const auto any = static_cast<std::int32_t>(random() % static_cast<unsigned>(s.classes));
    const bool predicted = s.labelled == 0 || (r + r / s.tokens) % s.tokens < s.labelled;
    const std::int32_t label = r % 3 == 0 ? static_cast<std::int32_t>(best) : any;
    labels.push_back(predicted ? label : kNoLabel);
  }
  return labels;
}

// And what each row is mixed with, at times its like, and by how much.
void mix(const LossSizes& s, std::vector<std::int32_t>& labels) {
  for (std::int64_t r = 0; r < s.batch; ++r) {
    const std::int64_t other = labels[static_cast<std::size_t>(r)] + r % 4;
    labels.push_back(static_cast<std::int32_t>(other % s.classes));
  }
  for (std::int64_t r = 0; r < s.batch; ++r) {
    labels.push_back(std::bit_cast<std::int32_t>(static_cast<float>(r % 9) / 8));
  }
}

template <class T>
void expect_loss(const LossSizes& s, float smoothing, std::int64_t offset, const Numbers& x,
                 const ConstantTable<float>& weights = {}) {
  SCOPED_TRACE(testing::Message() << s.batch << " x " << s.tokens << " x " << s.classes
                                  << ", smoothing " << smoothing << ", offset " << offset);
  const reference::LossSizes sizes{s.batch, s.tokens, s.classes, s.labelled,
                                   s.skips, weights,  s.mixed};
  std::vector<std::int32_t> labels = labels_for(s, x);
  if (s.mixed) mix(s, labels);
  const Array<T> logits(x, offset);
  const Array<std::int32_t> label(labels);
  const Losses got = in_both_orders([&] { return losses(s, smoothing, logits, label); });
  Numbers wanted(static_cast<std::size_t>(s.batch)), probabilities(x.size());
  std::vector<std::int32_t> correct(wanted.size());
  reference::softmax_cross_entropy_forward<double>(sizes, double{smoothing}, x.data(),
                                                   labels.data(), wanted.data(),
                                                   probabilities.data(), correct.data());
  expect_close(got.loss, wanted, 3e-6, "loss");
  for (std::size_t n = 0; n < correct.size(); ++n)
    EXPECT_EQ(got.correct.data()[n], correct[n]) << "sample " << n;
  EXPECT_EQ(got.outside.data()[0], 0);

  const std::int64_t samples = s.batch + 3;
  const double scale = 1024;
  Numbers dx(x.size());
  reference::softmax_cross_entropy_backward<double>(sizes, double{smoothing}, probabilities.data(),
                                                    labels.data(), samples, 0, s.rows(), dx.data());
  for (double& d : dx) d *= scale;
  const auto factor = static_cast<float>(scale / static_cast<double>(samples * s.predictions()));
  for (const std::int64_t at : {offset, offset + 1}) {  // lying as the logits do, and not
    const auto gradient = in_both_orders([&] {
      Array<T> r(s.rows() * s.classes, at);
      loss_backward(s, smoothing, logits.data(), got.kept.data(), label.data(), factor, r.data(),
                    nullptr);
      return r;
    });
    expect_close(gradient, dx, 2e-6 * double{factor}, "dx");
  }
  const Array<T> in_place(x, offset);
  loss_backward(s, smoothing, in_place.data(), got.kept.data(), label.data(), factor,
                in_place.data(), nullptr);
  expect_close(in_place, dx, 2e-6 * double{factor}, "dx in the place of the logits");
}

template <class T>
void expect_loss(const LossSizes& s, std::int64_t offset = 0) {
  const Numbers x = normal<T>(s.rows() * s.classes, 42, 0, 3);
  for (const float smoothing : {0.0f, 0.1f}) expect_loss<T>(s, smoothing, offset, x);
}

TYPED_TEST(OwnLoss, EveryShape) {
  for (const std::int64_t classes : {1, 2, 3, 10, 17, 100, 1000})
    for (const LossSizes s : {LossSizes{1, 1}, LossSizes{19, 1}, LossSizes{2, 40}})
      expect_loss<TypeParam>({s.batch, s.tokens, classes});
}

TYPED_TEST(OwnLoss, ManyClasses) {
  for (const std::int64_t classes : {1024, 1025, 2048, 5003})
    for (const std::int64_t offset : {0, 1}) expect_loss<TypeParam>({2, 3, classes}, offset);
  expect_loss<TypeParam>({1, 2, 50'257});
}

TYPED_TEST(OwnLoss, SomeTokensLabelled) {
  for (const std::int64_t classes : {2, 66, 1500}) {
    expect_loss<TypeParam>({3, 7, classes, 1});
    expect_loss<TypeParam>({2, 40, classes, 6});
    expect_loss<TypeParam>({2, 5, classes, 5});
  }
}

TYPED_TEST(OwnLoss, ClassesHaveWeights) {
  for (const std::int64_t classes : {3, 17, 1030}) {
    std::vector<float> weights;
    for (std::int64_t j = 0; j < classes; ++j) {
      weights.push_back(0.25f * static_cast<float>(1 + j % 4));
    }
    const float sum = std::accumulate(weights.begin(), weights.end(), 0.0f);
    for (const LossSizes s : {LossSizes{5, 1, classes}, LossSizes{2, 7, classes, 3}}) {
      LossSizes weighed = s;
      const Array<float> there(weights);
      weighed.weights = there.data();
      weighed.weight_sum = sum;
      const Numbers x = normal<TypeParam>(s.rows() * classes, 42, 0, 3);
      for (const float smoothing : {0.0f, 0.1f}) {
        expect_loss<TypeParam>(weighed, smoothing, 0, x, ConstantTable<float>(weights));
      }
    }
  }
}

TYPED_TEST(OwnLoss, MixedLabels) {
  for (const std::int64_t classes : {2, 10, 33, 1000, 1500}) {
    for (const std::int64_t batch : {1, 7, 40}) {
      expect_loss<TypeParam>({.batch = batch, .classes = classes, .mixed = true});
    }
  }
  // A second label outside is reported too.
  const Array<TypeParam> x(normal<TypeParam>(20, 46));
  const Array<std::int32_t> labels(
      std::vector<int>{1, 2, 3, 10, std::bit_cast<int>(0.5f), std::bit_cast<int>(0.5f)});
  const Losses got = losses({.batch = 2, .classes = 10, .mixed = true}, 0, x, labels);
  EXPECT_EQ(got.outside.data()[0], 1);
  EXPECT_FALSE(std::isnan(got.loss.data()[0]));
  EXPECT_TRUE(std::isnan(got.loss.data()[1]));
}

TYPED_TEST(OwnLoss, LargeLogits) {
  expect_loss<TypeParam>({4, 1, 50}, 0.1f, 0, normal<TypeParam>(200, 43, 300, 20));
  expect_loss<TypeParam>({2, 1, 1500}, 0.1f, 0, normal<TypeParam>(3000, 43, -2000, 20));
}

TYPED_TEST(OwnLoss, TheFirstOfEqualLogitsCounts) {
  const Array<TypeParam> same(Numbers(std::size_t{3 * 1300}, 2.0));
  EXPECT_EQ(losses({3, 1, 1300}, 0, same, Array<std::int32_t>(std::vector<int>{0, 1, 1299}))
                .correct.numbers(),
            (Numbers{1, 0, 0}));
  Numbers x(40, -1.0);
  x[7] = x[9] = x[38] = 5;
  EXPECT_EQ(losses({1, 1, 40}, 0, Array<TypeParam>(x), Array<std::int32_t>(std::vector<int>{7}))
                .correct.data()[0],
            1);
  EXPECT_EQ(losses({1, 1, 40}, 0, Array<TypeParam>(x), Array<std::int32_t>(std::vector<int>{9}))
                .correct.data()[0],
            0);
}

TYPED_TEST(OwnLoss, ClassesThatAreRuledOut) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const std::int64_t classes : {20, 2000}) {
    Numbers x(static_cast<std::size_t>(classes), -infinity);
    x[3] = 1;
    x[static_cast<std::size_t>(classes) - 1] = 1;
    expect_loss<TypeParam>({1, 1, classes}, 0, 0, x);
  }
}

TYPED_TEST(OwnLoss, ANanIsSeen) {
  for (const std::int64_t classes : {20, 2000})
    for (const std::size_t at : {std::size_t{0}, static_cast<std::size_t>(classes) - 1}) {
      for (const double bad : {std::nan(""), std::numeric_limits<double>::infinity()}) {
        Numbers x(static_cast<std::size_t>(classes), 1.0);
        x[at] = bad;
        const Losses got = losses({1, 1, classes}, 0, Array<TypeParam>(x),
                                  Array<std::int32_t>(std::vector<int>{5}));
        EXPECT_FALSE(std::isfinite(got.loss.data()[0])) << classes << " " << at << " " << bad;
      }
    }
}

TYPED_TEST(OwnLoss, LabelsOutsideAreReported) {
  for (const std::int32_t bad : {-1, 10, 2'000'000'000, -2'000'000'000}) {
    const LossSizes s{2, 3, 10};
    const Numbers x = normal<TypeParam>(60, 44);
    const Array<std::int32_t> labels(std::vector<int>{1, 2, 3, 4, bad, 5});
    const Array<TypeParam> logits(x);
    const Losses got = losses(s, 0.1f, logits, labels);
    EXPECT_EQ(got.outside.data()[0], 1);
    EXPECT_FALSE(std::isnan(got.loss.data()[0]));
    EXPECT_TRUE(std::isnan(got.loss.data()[1]));
    Array<TypeParam> dx(60);
    loss_backward(s, 0, logits.data(), got.kept.data(), labels.data(), 1, dx.data(), nullptr);
    double sum = 0;  // of probabilities alone
    for (int j = 40; j < 50; ++j) sum += number(dx.data()[j]);
    EXPECT_NEAR(sum, 1, 10 * rounding<TypeParam>());
  }
}

TYPED_TEST(OwnLoss, NobodyWantsTheCount) {
  for (const LossSizes s : {LossSizes{3, 1, 4}, LossSizes{3, 2, 4}}) {
    const Array<TypeParam> x(normal<TypeParam>(s.rows() * 4, 45));
    const Array<std::int32_t> labels(std::vector<int>(static_cast<std::size_t>(s.rows()), 2));
    const Losses wanted = losses(s, 0, x, labels);
    const auto space = scratch(loss_scratch_bytes(s));
    const Array<float> loss(s.batch);
    const Array<std::int32_t> outside(1);
    loss_forward(s, 0, x.data(), labels.data(), loss.data(), nullptr, nullptr, outside.data(),
                 space.data(), nullptr);
    EXPECT_TRUE(loss.bits() == wanted.loss.bits());
  }
}

}  // namespace loss_test
}  // namespace hetpipe::cuda
