// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "base/text.h"
#include "kernels/cuda/blas/linear.h"
#include "kernels/cuda/dnn/attention.h"
#include "kernels/cuda/dnn/convolution.h"
#include "kernels/reference/attention.h"
#include "kernels/reference/convolution.h"
#include "kernels/reference/linear.h"
#include "tests/cuda/device_numbers.h"

// Plans that run, against the definition of each layer. Skipped where there is no GPU.
namespace hetpipe::cuda {
namespace gpu_plans_test {

class GpuPlans : public testing::TestWithParam<Precision> {
 protected:
  void SetUp() override {
    int count = 0;
    const cudaError_t status = cudaGetDeviceCount(&count);
    if (status != cudaSuccess || count == 0) {
      GTEST_SKIP() << "no GPU: " << cudaGetErrorString(status);
    }
    std::filesystem::remove(file_);
    context_ = Context::on_device({.cache_file = file_, .candidates = 4});
    if (GetParam() == Precision::bf16 && context_->card().major < 8) {
      GTEST_SKIP() << context_->card().name << " has no bf16";
    }
  }
  void TearDown() override { std::filesystem::remove(file_); }

  ElementType type() const { return element_of(GetParam()); }
  DeviceNumbers workspace(std::size_t bytes) const {
    return DeviceNumbers(bytes / 4 + 64, ElementType::fp32);
  }
  // Within one rounding of the number itself, and `slack` of the largest.
  void expect_near(const Numbers& found, const Numbers& expected, ElementType rounded_to,
                   double slack, const std::string& what) {
    ASSERT_EQ(found.size(), expected.size()) << what;
    double largest = 0;
    for (const double value : expected) largest = std::max(largest, std::abs(value));
    const double ulp = rounded_to == ElementType::bf16   ? 0x1p-8
                       : rounded_to == ElementType::fp16 ? 0x1p-11
                                                         : 0x1p-20;
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
      const double allowed = ulp * std::abs(expected[i]) + slack * ulp * largest;
      if (!(std::abs(found[i] - expected[i]) <= allowed) && ++wrong <= 3) {
        ADD_FAILURE() << what << "[" << i << "]: " << found[i] << " for " << expected[i];
      }
    }
    EXPECT_EQ(wrong, 0u) << what << ": of " << found.size();
  }

  // Of this process alone: tests of all precisions may run at once.
  std::string file_ = format("%s/hetpipe_gpu_plans_%d.jsonl", testing::TempDir().c_str(),
                             static_cast<int>(getpid()));
  std::unique_ptr<Context> context_;
};

// (O, I, KH, KW) to (O, KH, KW, I), or back.
Numbers reordered(const Numbers& weight, std::int64_t o, std::int64_t i, std::int64_t taps,
                  bool channels_last) {
  Numbers result(weight.size());
  for (std::int64_t a = 0; a < o; ++a)
    for (std::int64_t b = 0; b < i; ++b)
      for (std::int64_t c = 0; c < taps; ++c) {
        const auto oihw = static_cast<std::size_t>((a * i + b) * taps + c);
        const auto ohwi = static_cast<std::size_t>((a * taps + c) * i + b);
        channels_last ? result[ohwi] = weight[oihw] : result[oihw] = weight[ohwi];
      }
  return result;
}

struct ConvolutionCase {
  Convolution spec;
  Shape in;
};
std::vector<ConvolutionCase> convolutions() {
  return {
      {{.output_channels = 16, .kernel = 3, .padding = 1}, {3, 9, 11, 8}},
      {{.output_channels = 64, .kernel = 1, .stride = 2, .bias = false}, {2, 14, 14, 32}},
      {{.output_channels = 64, .kernel = 7, .stride = 2, .padding = 3, .bias = false},
       {2, 32, 32, 3}},
      {{.output_channels = 24, .kernel = {1, 7}, .padding = {0, 3}}, {2, 12, 12, 24}},
      {{.output_channels = 6, .kernel = 5}, {2, 13, 13, 1}},
      {{.output_channels = 16, .kernel = 5}, {2, 14, 14, 6}},
  };
}

// Every engine that may be chosen computes the same: which one a card finds fastest is its own.
TEST_P(GpuPlans, EveryEngineOfAConvolution) {
  for (const auto& [spec, in] : convolutions()) {
    const Shape out = window_of(spec).output(in, spec.output_channels);
    const std::int64_t taps = window_of(spec).taps();
    const Numbers x = coarse_numbers(in.elements(), 1),
                  w = coarse_numbers(out[3] * (in[3] * taps), 2), b = coarse_numbers(out[3], 3),
                  dy = coarse_numbers(out.elements(), 4);
    Numbers y(dy.size()), dx(x.size()), dw(w.size());
    reference::convolution_forward(spec, in, x.data(), w.data(), spec.bias ? b.data() : nullptr,
                                   y.data());
    reference::convolution_input_gradient(spec, in, dy.data(), w.data(), dx.data());
    reference::convolution_weight_gradient(spec, in, x.data(), dy.data(), dw.data());
    const ConvolutionPlans plans(*context_, spec, in, GetParam());
    const Numbers krsc = reordered(w, out[3], in[3], taps, true);
    const struct {
      const char* what;
      std::shared_ptr<const Graph> graph;
      std::vector<Numbers> given;
      Numbers wanted;
    } passes[] = {
        {"y", plans.forward_graph(), spec.bias ? std::vector{x, krsc, b} : std::vector{x, krsc}, y},
        {"dx", plans.input_gradient_graph(), {dy, krsc}, dx},
        {"dweight",
         plans.weight_gradient_graph(),
         {x, dy},
         reordered(dw, out[3], in[3], taps, true)}};
    for (const auto& [what, graph, given, wanted] : passes) {
      const Descriptor finalized = graph->finalized(context_->dnn());
      int engines = 0;
      visit_recommended(
          context_->target(), *graph, finalized, {GetParam() != Precision::fp32, true},
          type() == ElementType::fp32,
          [&, &graph = graph, &given = given, &wanted = wanted](const EngineChoice& choice) {
            std::string reason;
            const std::optional<Plan> plan =
                Plan::try_make(context_->target(), graph, finalized, choice, reason);
            if (!plan) return false;
            std::vector<std::unique_ptr<DeviceNumbers>> numbers;
            std::vector<void*> memories;
            for (const Numbers& n : given) {
              numbers.push_back(std::make_unique<DeviceNumbers>(n, type()));
              memories.push_back(numbers.back()->get());
            }
            const DeviceNumbers result(wanted.size(), type());
            memories.push_back(result.get());
            const DeviceNumbers room = workspace(plan->workspace());
            plan->run(context_->dnn(), nullptr, memories, room.get());
            expect_near(result.read(), wanted, type(), 4,
                        to_string(spec) + " " + to_string(in) + " " + what + ", engine " +
                            to_string(choice));
            return ++engines >= 8;
          });
      EXPECT_GT(engines, 0) << to_string(spec) << " " << what;
    }
  }
}

TEST_P(GpuPlans, Convolutions) {
  for (const auto& [spec, in] : convolutions()) {
    const std::string what = to_string(spec) + " " + to_string(in);
    const Shape out = window_of(spec).output(in, spec.output_channels);
    const std::int64_t taps = window_of(spec).taps();
    const Numbers x = coarse_numbers(in.elements(), 1),
                  w = coarse_numbers(out[3] * (in[3] * taps), 2), b = coarse_numbers(out[3], 3),
                  dy = coarse_numbers(out.elements(), 4);
    Numbers y(dy.size()), dx(x.size()), dw(w.size());
    reference::convolution_forward(spec, in, x.data(), w.data(), spec.bias ? b.data() : nullptr,
                                   y.data());
    reference::convolution_input_gradient(spec, in, dy.data(), w.data(), dx.data());
    reference::convolution_weight_gradient(spec, in, x.data(), dy.data(), dw.data());

    ConvolutionPlans plans(*context_, spec, in, GetParam());
    const DeviceNumbers d_x(x, type()), d_w(reordered(w, out[3], in[3], taps, true), type()),
        d_b(b, type()), d_dy(dy, type()), d_y(y.size(), type()), d_dx(x.size(), type()),
        d_dw(w.size(), type());
    const DeviceNumbers room =
        workspace(std::max({plans.forward_workspace(), plans.input_gradient_workspace(),
                            plans.weight_gradient_workspace()}));
    plans.forward(nullptr, d_x.get(), d_w.get(), d_b.get(), d_y.get(), room.get());
    expect_near(d_y.read(), y, type(), 4,
                what + " y, engine " + to_string(plans.forward_plan()->choice()));
    plans.input_gradient(nullptr, d_dy.get(), d_w.get(), d_dx.get(), room.get());
    expect_near(d_dx.read(), dx, type(), 4, what + " dx");
    plans.weight_gradient(nullptr, d_x.get(), d_dy.get(), d_dw.get(), room.get());
    expect_near(reordered(d_dw.read(), out[3], in[3], taps, false), dw, type(), 4,
                what + " dweight");

    // The same bits again.
    const auto first = d_dw.raw();
    plans.weight_gradient(nullptr, d_x.get(), d_dy.get(), d_dw.get(), room.get());
    EXPECT_EQ(d_dw.raw(), first) << what;
  }
  EXPECT_GT(PlanCache(file_).size(), 0u);
}

// A later run takes the plans of an earlier one, without measuring.
TEST_P(GpuPlans, AreKept) {
  const Convolution spec{.output_channels = 64, .kernel = 3, .padding = 1};
  ConvolutionPlans plans(*context_, spec, {8, 28, 28, 64}, GetParam());
  const EngineChoice choice = plans.forward_plan()->choice();
  const std::size_t kept = PlanCache(file_).size();
  const std::unique_ptr<Context> later = Context::on_device({.cache_file = file_});
  ConvolutionPlans again(*later, spec, {8, 28, 28, 64}, GetParam());
  EXPECT_EQ(again.forward_plan()->choice(), choice);
  EXPECT_EQ(PlanCache(file_).size(), kept);
}

// What the card says of itself is enough to plan for it elsewhere.
TEST_P(GpuPlans, CanBeMadeFromTheCardsDescription) {
  const std::unique_ptr<Context> elsewhere =
      Context::described(context_->description(), {.measure = false});
  EXPECT_EQ(elsewhere->card().name, context_->card().name);
  EXPECT_EQ(elsewhere->card().major, context_->card().major);
  const std::unique_ptr<Context> here = Context::on_device({.measure = false});
  const Convolution spec{.output_channels = 64, .kernel = 3, .padding = 1};
  ConvolutionPlans a(*elsewhere, spec, {8, 28, 28, 64}, GetParam());
  // The choices need not be equal: in tf32 the library recommends another to the card itself.
  ConvolutionPlans b(*here, spec, {8, 28, 28, 64}, GetParam());
  const std::shared_ptr<const Graph> graph = b.forward_graph();
  std::string reason;
  EXPECT_TRUE(Plan::try_make(here->target(), graph, graph->finalized(here->dnn()),
                             a.forward_plan()->choice(), reason))
      << reason;
}

TEST_P(GpuPlans, LinearLayers) {
  for (const bool transposed : {false, true})
    for (const auto& [rows, in, out] :
         {std::array<std::int64_t, 3>{32, 64, 128}, {5, 24, 10}, {128, 96, 50}}) {
      const std::string what = format("linear %d: %d %d %d", transposed, static_cast<int>(rows),
                                      static_cast<int>(in), static_cast<int>(out));
      const Linear spec{.output_features = static_cast<int>(out), .transposed = transposed};
      const reference::LinearSizes sizes{rows, in, out, transposed};
      const Numbers x = coarse_numbers(rows * in, 1), w = coarse_numbers(in * out, 2),
                    b = coarse_numbers(out, 3), dy = coarse_numbers(rows * out, 4);
      Numbers y(dy.size()), dx(x.size()), dw(w.size()), db(b.size());
      LinearPlans plans(*context_, spec, {rows, in}, GetParam());
      reference::linear_forward(sizes, x.data(), w.data(), plans.adds_bias() ? b.data() : nullptr,
                                y.data());
      reference::linear_input_gradient(sizes, dy.data(), w.data(), dx.data());
      reference::linear_weight_gradient(sizes, x.data(), dy.data(), dw.data());
      reference::bias_gradient(rows, out, dy.data(), db.data());

      const DeviceNumbers d_x(x, type()), d_w(w, type()), d_b(b, type()), d_dy(dy, type()),
          d_y(y.size(), type()), d_dx(x.size(), type()), d_dw(w.size(), ElementType::fp32),
          d_db(b.size(), ElementType::fp32);
      const DeviceNumbers room =
          workspace(std::max({plans.forward_workspace(), plans.input_gradient_workspace(),
                              plans.weight_gradient_workspace()}));
      plans.forward(nullptr, d_x.get(), d_w.get(), d_b.get(), d_y.get(), room.get());
      expect_near(d_y.read(), y, type(), 1, what + " y");
      plans.input_gradient(nullptr, d_dy.get(), d_w.get(), d_dx.get(), room.get());
      expect_near(d_dx.read(), dx, type(), 1, what + " dx");
      plans.weight_gradient(nullptr, d_x.get(), d_dy.get(), d_dw.fp32(), d_db.fp32(), room.get());
      expect_near(d_dw.read(), dw, ElementType::fp32, 1, what + " dweight");
      RecordProperty(what, format("adds bias %d, sums bias gradient %d", plans.adds_bias(),
                                  plans.sums_bias_gradient()));
      if (plans.sums_bias_gradient()) {
        expect_near(d_db.read(), db, ElementType::fp32, 1, what + " dbias");
      }
    }
}

TEST_P(GpuPlans, Attentions) {
  for (const bool causal : {true, false})
    for (const bool deterministic : {true, false})
      for (const std::int64_t tokens : {64, 100}) {
        const std::int64_t batch = 2, heads = 3, features = heads * 64;
        const SelfAttention spec{.heads = static_cast<int>(heads), .causal = causal};
        const Shape in{batch, tokens, 3 * features};
        const std::unique_ptr<Context> context =
            Context::on_device({.deterministic = deterministic, .candidates = 4});
        AttentionPlans plans(*context, spec, in, GetParam());
        if (!plans.supported()) GTEST_SKIP() << "no engine on " << context->card().name;
        const std::string what = format("causal %d deterministic %d tokens %d ", causal,
                                        deterministic, static_cast<int>(tokens));
        const reference::AttentionSizes sizes{batch, tokens, features, heads, causal};
        const Numbers x = coarse_numbers(in.elements(), 1),
                      dy = coarse_numbers(batch * tokens * features, 2);
        Numbers softmax(static_cast<std::size_t>(batch * heads * tokens * tokens)), y(dy.size()),
            dx(x.size());
        reference::attention_forward(sizes, x.data(), softmax.data(), true, y.data());
        reference::attention_backward(sizes, x.data(), softmax.data(), dy.data(), dx.data());

        const DeviceNumbers d_x(x, type()), d_dy(dy, type()), d_y(y.size(), type()),
            d_dx(x.size(), type()), stash(plans.stash_bytes() / 4, ElementType::fp32);
        const DeviceNumbers room =
            workspace(std::max(plans.forward_workspace(), plans.backward_workspace()));
        plans.forward(nullptr, d_x.get(), d_y.get(), stash.fp32(), room.get());
        expect_near(d_y.read(), y, type(), 4, what + "y");
        plans.backward(nullptr, d_x.get(), d_y.get(), stash.fp32(), d_dy.get(), d_dx.get(),
                       room.get());
        expect_near(d_dx.read(), dx, type(), 8, what + "dx");
        if (!deterministic) continue;
        const auto first = d_dx.raw();
        plans.backward(nullptr, d_x.get(), d_y.get(), stash.fp32(), d_dy.get(), d_dx.get(),
                       room.get());
        EXPECT_EQ(d_dx.raw(), first) << what;
      }
}

INSTANTIATE_TEST_SUITE_P(Numbers, GpuPlans,
                         testing::Values(Precision::fp32, Precision::tf32, Precision::bf16,
                                         Precision::fp16),
                         [](const auto& test) { return std::string(to_string(test.param)); });

}  // namespace gpu_plans_test
}  // namespace hetpipe::cuda
