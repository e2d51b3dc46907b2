// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "kernels/cuda/dnn/attention.h"
#include "kernels/cuda/dnn/convolution.h"
#include "kernels/cuda/dnn/planner.h"

namespace hetpipe::cuda {
namespace plans_test {

using testing::HasSubstr;

const Convolution kConvolution{.output_channels = 64, .kernel = 3, .padding = 1, .bias = true};
const Shape kImage{32, 56, 56, 64};

std::unique_ptr<Context> h200(PlanOptions options = {}) {
  return Context::described(read_file(HETPIPE_H200), std::move(options));
}

// What the library recommends for a plan's graph, best first.
std::vector<EngineChoice> recommended_for(const Context& context, const Plan& plan,
                                          const EngineRules& rules, bool fp32_data) {
  const Descriptor finalized = plan.graph().finalized(nullptr);
  std::vector<EngineChoice> choices;
  visit_recommended(context.target(), plan.graph(), finalized, rules, fp32_data,
                    [&](const EngineChoice& choice) {
                      choices.push_back(choice);
                      return false;
                    });
  return choices;
}

TEST(Plans, ACardIsDescribedByItsJson) {
  const std::unique_ptr<Context> context = h200();
  EXPECT_EQ(context->card().name, "NVIDIA H200");
  EXPECT_EQ(context->card().major, 9);
  EXPECT_EQ(context->card().minor, 0);
  EXPECT_FALSE(context->has_device());
  EXPECT_EQ(Json::parse(context->description()), Json::parse(read_file(HETPIPE_H200)));
}

TEST(Plans, ADescriptionThatLacksSomethingIsRefusedWithItsName) {
  try {
    Context::described(R"({"deviceName": "NVIDIA H200"})", {});
    FAIL() << "accepted";
  } catch (const SystemError& e) {
    EXPECT_THAT(e.what(), HasSubstr("reading the description of a card"));
    EXPECT_THAT(e.what(), HasSubstr("maxGridSize"));
  }
}

TEST(Plans, LayersThatAreAlikeShareAPlan) {
  const std::unique_ptr<Context> context = h200();
  ConvolutionPlans one(*context, kConvolution, kImage, Precision::bf16);
  ConvolutionPlans other(*context, kConvolution, kImage, Precision::bf16);
  EXPECT_EQ(one.forward_plan(), other.forward_plan());
  ConvolutionPlans wider(*context, kConvolution, {32, 56, 57, 64}, Precision::bf16);
  EXPECT_NE(one.forward_plan(), wider.forward_plan());
}

TEST(Plans, BiasAndReluAreTakenAlong) {
  const std::unique_ptr<Context> context = h200();
  for (const Precision precision : {Precision::bf16, Precision::fp16, Precision::tf32}) {
    ConvolutionPlans plans(*context, kConvolution, kImage, precision, Activation::relu);
    EXPECT_EQ(plans.forward_plan()->graph().memories().size(), 4u) << to_string(precision);
  }
}

// The cache's choice is taken, though the library recommends another one first.
TEST(Plans, AKeptChoiceIsRebuilt) {
  const std::string file = testing::TempDir() + "/kept_plans.jsonl";
  std::filesystem::remove(file);
  std::string key;
  EngineChoice second;
  {
    const std::unique_ptr<Context> context = h200();
    ConvolutionPlans plans(*context, kConvolution, kImage, Precision::bf16);
    const std::shared_ptr<const Plan> plan = plans.input_gradient_plan();
    const auto choices = recommended_for(*context, *plan, {true, true}, false);
    ASSERT_GE(choices.size(), 2u);
    EXPECT_EQ(plan->choice(), choices[0]);
    second = choices[1];
    ASSERT_EQ(context->plans().size(), 1u);
    key = context->plans().begin()->first;
  }
  PlanCache(file).store(key, {to_string(second), 1e-5});
  const std::unique_ptr<Context> context = h200({.cache_file = file});
  ConvolutionPlans plans(*context, kConvolution, kImage, Precision::bf16);
  EXPECT_EQ(plans.input_gradient_plan()->choice(), second);
}

TEST(Plans, AKeptChoiceThatMeansNothingIsPassedOver) {
  const std::string file = testing::TempDir() + "/wrong_plans.jsonl";
  for (const char* const wrong : {"", "engine", "999999", "62 2=1000 14=7"}) {
    std::filesystem::remove(file);
    const std::unique_ptr<Context> first = h200();
    ConvolutionPlans expected(*first, kConvolution, kImage, Precision::bf16);
    expected.input_gradient_plan();
    PlanCache(file).store(first->plans().begin()->first, {wrong, 1e-5});
    const std::unique_ptr<Context> context = h200({.cache_file = file});
    ConvolutionPlans plans(*context, kConvolution, kImage, Precision::bf16);
    EXPECT_EQ(plans.input_gradient_plan()->choice(), expected.input_gradient_plan()->choice());
  }
}

TEST(Plans, KeysTellRulesApart) {
  const std::unique_ptr<Context> in_order = h200();
  const std::unique_ptr<Context> any_order = h200({.deterministic = false});
  EXPECT_NE(in_order->cache_key("a", "b"), any_order->cache_key("a", "b"));
  for (const Precision precision : {Precision::fp32, Precision::tf32}) {
    ConvolutionPlans(*in_order, kConvolution, kImage, precision).forward_plan();
  }
  EXPECT_EQ(in_order->plans().size(), 2u);
}

// fp32 keeps all bits of its factors; tf32 does not. Where bits may change from run to run there
// are engines more.
TEST(Plans, RulesLeaveEnginesOut) {
  const std::unique_ptr<Context> context = h200();
  ConvolutionPlans plans(*context, kConvolution, kImage, Precision::tf32);
  const Plan& plan = *plans.weight_gradient_plan();
  const auto count = [&](const EngineRules& rules) {
    return recommended_for(*context, plan, rules, true).size();
  };
  EXPECT_LT(count({.tensor_cores = false}), count({.tensor_cores = true}));
  EXPECT_LT(count({.tensor_cores = false, .deterministic = true}),
            count({.tensor_cores = false, .deterministic = false}));
}

TEST(Plans, WorkspaceIsLimited) {
  const std::unique_ptr<Context> roomy = h200();
  ConvolutionPlans plans(*roomy, kConvolution, kImage, Precision::fp32);
  const std::size_t wanted = plans.forward_workspace();
  ASSERT_GT(wanted, 0u);
  const std::unique_ptr<Context> tight = h200({.workspace = wanted - 1});
  ConvolutionPlans others(*tight, kConvolution, kImage, Precision::fp32);
  EXPECT_LT(others.forward_workspace(), wanted);
}

TEST(Plans, WhatNoEngineDoesIsSaidWithShapesAndReason) {
  const std::unique_ptr<Context> context = h200();
  AttentionPlans wide(*context, {.heads = 1}, {2, 64, 3 * 12}, Precision::bf16);
  EXPECT_FALSE(wide.supported());
  EXPECT_FALSE(
      AttentionPlans(*context, {.heads = 1}, {2, 64, 3 * 64}, Precision::tf32).supported());
  try {
    wide.backward_plan();
    FAIL() << "planned";
  } catch (const SystemError& e) {
    EXPECT_THAT(e.what(), HasSubstr("cuDNN: no plan for attention"));
    EXPECT_THAT(e.what(), HasSubstr("2,1,64,12"));
    EXPECT_THAT(e.what(), HasSubstr("NVIDIA H200"));
  }
}

// Deterministic gradients of attention keep the scores' gradients: 2 bytes for each of T * T.
TEST(Plans, AttentionStatesItsMemory) {
  const SelfAttention spec{.heads = 12, .causal = true};
  const Shape in{2, 256, 3 * 768};
  const std::unique_ptr<Context> in_order = h200();
  const std::unique_ptr<Context> any_order = h200({.deterministic = false});
  AttentionPlans careful(*in_order, spec, in, Precision::bf16);
  AttentionPlans fast(*any_order, spec, in, Precision::bf16);
  ASSERT_TRUE(careful.supported());
  ASSERT_TRUE(fast.supported());
  EXPECT_EQ(careful.stash_bytes(), 2u * 12 * 256 * 4);
  EXPECT_GE(careful.backward_workspace(), 2u * 12 * 256 * 256 * 2);
  EXPECT_GE(fast.backward_workspace(), 2u * 256 * 768 * 4);
  EXPECT_LT(fast.backward_workspace(), careful.backward_workspace());
}

// GPT-2's: all 64 samples want more than a plan may use, and pieces of them do not.
TEST(Plans, AttentionInPiecesKeepsWithinTheWorkspace) {
  const SelfAttention spec{.heads = 12, .causal = true};
  const Shape whole{64, 1024, 3 * 768};
  for (const std::size_t limit : {std::size_t{1} << 30, std::size_t{768} << 20}) {
    const std::unique_ptr<Context> context = h200({.workspace = limit});
    EXPECT_FALSE(AttentionPlans(*context, spec, whole, Precision::bf16).supported());
    const std::int64_t piece = samples_at_once(context->options(), spec, whole);
    EXPECT_LT(piece, 64);
    AttentionPlans plans(*context, spec, {piece, 1024, 3 * 768}, Precision::bf16);
    ASSERT_TRUE(plans.supported());
    EXPECT_LE(plans.backward_plan()->workspace(), limit);
  }
  EXPECT_EQ(samples_at_once({.workspace = 1}, spec, whole), 1);
  EXPECT_EQ(samples_at_once({.deterministic = false, .workspace = 1}, spec, whole), 64);
}

// The library's own plans, as the device asks for them: by pieces that a plan may use the memory
// for, on a card of 24 GB and one of 80 GB.
TEST(Plans, AttentionOf64TimesAThousandTokensIsFusedOnCardsOf24And80GB) {
  const SelfAttention spec{.heads = 12, .causal = true};
  const Shape whole{64, 1024, 3 * 768};
  for (const char* const file : {HETPIPE_RTX_3090, HETPIPE_H100}) {
    const std::string json = read_file(file);
    const auto memory = Json::parse(json).at("totalGlobalMem").get<std::size_t>();
    const std::size_t limit = workspace_of_card(memory);
    const std::unique_ptr<Context> context = Context::described(json, {.workspace = limit});
    const std::int64_t piece = samples_at_once(context->options(), spec, whole);
    for (const Precision precision : {Precision::bf16, Precision::fp16}) {
      for (std::int64_t first = 0; first < whole[0]; first += piece) {
        const Shape in{std::min(piece, whole[0] - first), 1024, 3 * 768};
        AttentionPlans plans(*context, spec, in, precision);
        ASSERT_TRUE(plans.supported()) << context->card().name << ", " << to_string(precision)
                                       << ", " << to_string(in) << ": " << plans.why_not();
        EXPECT_LE(plans.forward_plan()->workspace(), limit);
        EXPECT_LE(plans.backward_plan()->workspace(), limit);
      }
    }
  }
}

TEST(Plans, ChoicesAreTextAndBack) {
  const EngineChoice choice{62, {{2, 5}, {14, -1}}};
  EXPECT_EQ(to_string(choice), "62 2=5 14=-1");
  EXPECT_EQ(try_parse_engine_choice("62 2=5 14=-1"), choice);
  EXPECT_EQ(try_parse_engine_choice("7"), (EngineChoice{7, {}}));
  for (const char* const wrong : {"", "x", "62 2", "62 2=", "62 2:5", "62 2=5 x", "62 2=5,3=4"})
    EXPECT_EQ(try_parse_engine_choice(wrong), std::nullopt) << wrong;
}

}  // namespace plans_test
}  // namespace hetpipe::cuda
