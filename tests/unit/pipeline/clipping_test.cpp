// SPDX-License-Identifier: Apache-2.0
#include "runtime/pipeline/clipping.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"
#include "kernels/devices.h"
#include "runtime/model/zoo.h"
#include "runtime/pipeline/optimizer.h"

namespace hetpipe {
namespace clipping_test {

using testing::HasSubstr;

TEST(Clipping, NamesParseBack) {
  for (const std::string& name : clip_scope_names()) {
    const auto scope = try_parse_clip_scope(name);
    ASSERT_TRUE(scope.has_value()) << name;
    EXPECT_EQ(to_string(*scope), name);
  }
  EXPECT_EQ(try_parse_clip_scope("globale"), std::nullopt);
}

TEST(Clipping, SystemsHaveTheScopesTheyCanHave) {
  for (const System& system : systems()) {
    SCOPED_TRACE(system.name);
    EXPECT_EQ(why_not_clip(usual_clip_scope(system), system), "");
    EXPECT_EQ(why_not_clip(ClipScope::stage, system), "");
    EXPECT_EQ(why_not_clip(ClipScope::global, system).empty(), traits(system.schedule).has_flush);
    EXPECT_EQ(why_not_clip(ClipScope::wave, system).empty(), traits(system.sync).waves());
  }
  EXPECT_THAT(why_not_clip(ClipScope::global, system_named("hetpipe")),
              HasSubstr("Give --clip-scope stage or wave"));
  EXPECT_THAT(why_not_clip(ClipScope::wave, system_named("gpipe")),
              HasSubstr("Give --clip-scope global"));
}

// The factor is the same under every cut, to the last bit: squares are summed per parameter.
TEST(Clipping, TheCutDoesNotMatter) {
  const std::unique_ptr<Device> device = make_device("cpu", 1);
  const std::unique_ptr<Stream> stream = device->make_stream();
  const Model model = make_model("lenet-bn", Shape{28, 28, 1}, 10);
  const int layers = model.layer_count();
  const auto whole = ParameterLayout::parameters(model, 0, layers);
  std::vector<float> gradient(static_cast<std::size_t>(whole.count()));
  double sum = 0;
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    gradient[i] = random_normal(3, i);
    sum += static_cast<double>(gradient[i]) * static_cast<double>(gradient[i]);
  }
  const auto squares_of = [&](int first, int end) {
    std::vector<std::int64_t> counts;
    const auto layout = ParameterLayout::parameters(model, first, end);
    for (const ParameterEntry& entry : layout.entries()) counts.push_back(entry.count);
    EntrySquares squares(*device, *stream, counts);
    squares.measure(gradient.data() + ParameterLayout::parameters(model, 0, first).count());
    const auto values = squares.download();
    return std::vector<double>(values.begin(), values.end());
  };
  const std::vector<std::vector<double>> uncut{squares_of(0, layers)};
  EXPECT_EQ(uncut.front().size(), whole.entries().size());
  const float factor = clip_factor_of(uncut, 2.5);
  EXPECT_NEAR(factor, 2.5 / std::sqrt(sum), 1e-7);
  for (int cut = 0; cut <= layers; ++cut) {
    const std::vector<std::vector<double>> parts{squares_of(0, cut), squares_of(cut, layers)};
    EXPECT_EQ(clip_factor_of(parts, 2.5), factor) << cut;
  }
  EXPECT_EQ(clip_factor_of(uncut, 1e6), 1);
}

class ClippedOptimizer : public testing::Test {
 protected:
  // The weight changes of {3, 0, 4}, whose norm is 5; velocity and decay as given.
  std::vector<float> update(const OptimizerOptions& options, std::optional<float> factor = {}) {
    Optimizer optimizer(options, *device_, *stream_, 3);
    Buffer gradient(*device_, *stream_, 3 * sizeof(float), MemoryKind::gradients);
    const float values[] = {3, 0, 4};
    std::copy_n(values, 3, gradient.as<float>());
    optimizer.update(0, 1, gradient, weights_, factor);
    return {gradient.as<float>(), gradient.as<float>() + 3};
  }
  std::unique_ptr<Device> device_ = make_device("reference", 1);
  std::unique_ptr<Stream> stream_ = device_->make_stream();
  const float weights_[3] = {10, 20, 30};
};

TEST_F(ClippedOptimizer, AStageClipsItsGradientBeforeTheDecay) {
  const std::vector<float> changes =
      update({.name = "sgd", .learning_rate = 1, .weight_decay = 0.5, .clipping = {.max_norm = 1}});
  EXPECT_NEAR(changes[0], -(0.6 + 5), 1e-5);
  EXPECT_NEAR(changes[1], -10, 1e-5);
  EXPECT_NEAR(changes[2], -(0.8 + 15), 1e-5);
  EXPECT_EQ(update({.name = "sgd", .learning_rate = 1, .clipping = {.max_norm = 6}}),
            (std::vector<float>{-3, 0, -4}));
}

TEST_F(ClippedOptimizer, GlobalClippingNeedsEveryStage) {
  const OptimizerOptions options{
      .name = "sgd", .learning_rate = 1, .clipping = {.max_norm = 1, .scope = ClipScope::global}};
  EXPECT_EQ(update(options, 0.5f), (std::vector<float>{-1.5f, 0, -2}));
  EXPECT_EQ(update(options, 1.0f), (std::vector<float>{-3, 0, -4}));
  EXPECT_DEATH(update(options), "a factor of all stages");
}

// At rates of 1, 0.5 and 0.5 with a norm of 0.5: the sum of the changes may be as long as 1.
TEST_F(ClippedOptimizer, AWaveClipsItsPush) {
  Optimizer optimizer(
      {.name = "sgd",
       .learning_rate = 1,
       .schedule = {.rule = RateRule::step, .decay = 0.5, .milestones = {4}, .length = 9},
       .clipping = {.max_norm = 0.5, .scope = ClipScope::wave}},
      *device_, *stream_, 3);
  Buffer sum(*device_, *stream_, 3 * sizeof(float), MemoryKind::messages);
  const auto limited = [&](Minibatch first, Minibatch last, float a, float b) {
    sum.as<float>()[0] = a;
    sum.as<float>()[1] = 0;
    sum.as<float>()[2] = b;
    optimizer.limit_wave(first, last, sum);
    return std::vector<float>{sum.as<float>()[0], sum.as<float>()[2]};
  };
  EXPECT_THAT(limited(3, 5, -3, -4),
              testing::Pointwise(testing::FloatNear(1e-6f), std::vector<float>{-.6f, -.8f}));
  EXPECT_EQ(limited(3, 5, -.3f, -.4f), (std::vector<float>{-.3f, -.4f}));
  // The updates inside the wave stay as they are.
  EXPECT_EQ(update({.name = "sgd",
                    .learning_rate = 1,
                    .clipping = {.max_norm = 0.5, .scope = ClipScope::wave}}),
            (std::vector<float>{-3, 0, -4}));
}

}  // namespace clipping_test
}  // namespace hetpipe
