// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "kernels/devices.h"
#include "tests/unit/kernels/layer_cases.h"

// A split backward asks for the inputs' gradients and for the parameters' later: every bit is that
// of a backward that asks for both.
namespace hetpipe {
namespace sequence_split_backward_test {

using test::LayerCase;
using test::LayerResult;

std::vector<LayerCase> cases() {
  const Shape tokens{3, 19}, rows{3, 19, 48};
  std::vector<LayerCase> all{{Linear{.output_features = 17, .bias = false}, {rows}},
                             {Linear{.output_features = 70, .transposed = true}, {rows}},
                             {Add{}, {rows, rows}},
                             {Dropout{0.3f}, {rows}},
                             {SoftmaxCrossEntropy{0.1f}, {rows}},
                             {Embedding{40, 24}, {tokens}},
                             {PositionEmbedding{30}, {rows}},
                             {LayerNorm{}, {rows}},
                             {SelfAttention{4, true}, {rows}},
                             {SelfAttention{2, false}, {rows}},
                             {Lstm{21}, {rows}}};
  for (const LayerCase& c : test::elementwise_cases(rows)) all.push_back(c);
  return all;
}

TEST(SequenceSplitBackward, GivesTheBitsOfOneBackward) {
  for (const std::string name : {"cpu", "reference"}) {
    for (int threads : {1, 2}) {
      if (name == "reference" && threads == 2) continue;
      const auto device = make_device(name, threads);
      for (const LayerCase& c : cases()) {
        SCOPED_TRACE(name + " " + to_string(c));
        const test::LayerValues values = make_values(c);
        const LayerResult whole = run_layer(*device, c, values);
        const LayerResult split = run_layer(*device, c, values, {.split_backward = true});
        EXPECT_EQ(split.input_gradients, whole.input_gradients);
        EXPECT_EQ(split.parameter_gradients, whole.parameter_gradients);
      }
    }
  }
}

}  // namespace sequence_split_backward_test
}  // namespace hetpipe
