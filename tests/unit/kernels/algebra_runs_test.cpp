// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "kernels/devices.h"
#include "tests/unit/kernels/algebra_cases.h"

// What the layers of kernels/algebra.h promise whoever runs them: the same bits for any number of
// threads, in halves of a backward, in place, and for each sample in any batch.
namespace hetpipe {
namespace algebra_runs_test {

using test::LayerCase;
using test::LayerResult;
using test::LayerValues;

std::vector<LayerCase> all_cases() {
  std::vector<LayerCase> cases = test::small_algebra_cases();
  for (const LayerCase& c : test::large_algebra_cases()) cases.push_back(c);
  for (const char* op : {"relu", "gelu", "mul", "where", "maximum"}) {
    cases.push_back(test::pointwise_case(op, {3, 700}));
    cases.push_back(test::pointwise_case(op, {2, 40000}));
  }
  return cases;
}

void expect_same(const LayerResult& got, const LayerResult& wanted) {
  EXPECT_EQ(got.output, wanted.output);
  EXPECT_EQ(got.evaluated, wanted.evaluated);
  EXPECT_EQ(got.input_gradients, wanted.input_gradients);
  EXPECT_EQ(got.parameter_gradients, wanted.parameter_gradients);
}

TEST(AlgebraRuns, ThreadsHalvesAndPlacesChangeNoBit) {
  const auto one = make_device("cpu", 1), two = make_device("cpu", 2);
  int in_place = 0;
  for (const LayerCase& c : all_cases()) {
    SCOPED_TRACE(to_string(c));
    const LayerValues values = make_values(c);
    const LayerResult wanted = run_layer(*one, c, values);
    expect_same(run_layer(*two, c, values), wanted);
    expect_same(run_layer(*two, c, values, {.split_backward = true}), wanted);
    expect_same(run_layer(*one, c, values, {.offset = 3}), wanted);
    const LayerShapes shapes = infer_shapes(c.spec, c.inputs);
    if (!shapes.forward_in_place && !shapes.backward_in_place) continue;
    ++in_place;
    for (Device* device : {one.get(), two.get()}) {
      expect_same(run_layer(*device, c, values, {.in_place = true}), wanted);
    }
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GE(in_place, 8);
}

// The first sample alone.
LayerCase first_sample(LayerCase c) {
  for (Shape& in : c.inputs) in = in.with_batch(1);
  return c;
}
LayerValues first_sample(LayerValues v, const LayerCase& c) {
  const auto cut = [&](std::vector<float>& all) {
    all.resize(all.size() / static_cast<std::size_t>(c.inputs[0][0]));
  };
  for (auto& in : v.inputs) cut(in);
  cut(v.output_gradient);
  v.samples.resize(1);
  return v;
}

TEST(AlgebraRuns, ASampleHasTheSameBitsInAnyBatch) {
  for (const std::string name : {"cpu", "reference"}) {
    const auto device = make_device(name, 1);
    for (const LayerCase& c : name == "cpu" ? all_cases() : test::small_algebra_cases()) {
      SCOPED_TRACE(name + " " + to_string(c));
      const LayerValues values = make_values(c);
      const LayerResult whole = run_layer(*device, c, values);
      const LayerResult alone = run_layer(*device, first_sample(c), first_sample(values, c));
      EXPECT_TRUE(std::equal(alone.output.begin(), alone.output.end(), whole.output.begin()));
      for (std::size_t i = 0; i < alone.input_gradients.size(); ++i) {
        EXPECT_TRUE(std::equal(alone.input_gradients[i].begin(), alone.input_gradients[i].end(),
                               whole.input_gradients[i].begin()))
            << "input " << i;
      }
    }
  }
}

// A layer's text is its whole value.
TEST(AlgebraRuns, FullTextsDiffer) {
  std::set<std::string> texts;
  std::vector<LayerSpec> seen;
  for (const LayerCase& c : test::small_algebra_cases()) {
    std::visit(
        [&](const auto& layer) {
          if constexpr (AlgebraLayer<std::decay_t<decltype(layer)>>) {
            const bool known = std::any_of(seen.begin(), seen.end(), [&](const LayerSpec& s) {
              const auto* same = std::get_if<std::decay_t<decltype(layer)>>(&s);
              return same != nullptr && *same == layer;
            });
            EXPECT_EQ(texts.insert(full_text(layer)).second, !known) << full_text(layer);
            seen.emplace_back(layer);
          }
        },
        c.spec);
  }
}

}  // namespace algebra_runs_test
}  // namespace hetpipe
