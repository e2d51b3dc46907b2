// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "base/masked_tokens.h"
#include "kernels/devices.h"
#include "tests/unit/kernels/layer_run.h"

// Layers for sequences on both devices against PyTorch 1.13 in double (layer_norm, gelu with
// approximate="tanh", LSTM, cross_entropy with label_smoothing; attention from matmul and softmax),
// from values that both compute.
namespace hetpipe {
namespace sequence_values_test {

using test::LayerCase;
using test::LayerResult;
using test::LayerValues;

using Floats = std::vector<float>;

Floats fill(int seed, int count, float factor = 1) {
  Floats values;
  for (int i = 0; i < count; ++i) {
    values.push_back(factor * (static_cast<float>((i * 37 + seed * 53) % 101) / 50 - 1));
  }
  return values;
}

void expect_near(const Floats& got, const Floats& wanted, const char* what) {
  ASSERT_EQ(got.size(), wanted.size()) << what;
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_NEAR(got[i], wanted[i], 2e-6 * (1 + std::abs(wanted[i]))) << what << " element " << i;
  }
}

class SequenceValues : public testing::TestWithParam<const char*> {
 protected:
  std::unique_ptr<Device> device_ = make_device(GetParam(), 1);
};

TEST_P(SequenceValues, LayerNorm) {
  const LayerCase c{LayerNorm{}, {{3, 4}}};
  LayerValues v = make_values(c);
  v.inputs = {fill(1, 12)};
  v.parameters = {fill(2, 4), fill(3, 4)};
  v.output_gradient = fill(4, 12);
  const LayerResult r = run_layer(*device_, c, v);
  expect_near(r.output,
              {0.356485f, 0.6764437f, -1.190391f, 0.2071783f, -1.019046f, 0.9852253f, -0.07105828f,
               1.277036f, 0.356485f, 0.6764437f, -1.190391f, 0.2071783f},
              "y");
  expect_near(r.evaluated, r.output, "y in evaluation");
  expect_near(r.input_gradients[0],
              {0.6573094f, -0.3617866f, -0.4416188f, 0.146096f, 0.03750994f, 0.08129477f,
               -0.08762909f, -0.03117562f, 0.8587433f, -0.5087744f, -0.6033307f, 0.2533619f},
              "dx");
  expect_near(r.parameter_gradients[0], {0.5632782f, -0.8320181f, -1.91768f, -0.7379617f},
              "dscale");
  expect_near(r.parameter_gradients[1], {-1.6f, 0.62f, 0.82f, -1}, "dshift");
}

TEST_P(SequenceValues, Gelu) {
  const LayerCase c{Gelu{}, {{1, 6}}};
  LayerValues v = make_values(c);
  v.inputs = {fill(1, 6, 3)};
  v.output_gradient = fill(2, 6);
  const LayerResult r = run_layer(*device_, c, v);
  expect_near(r.output, {0.1028559f, 2.380723f, -0.1081333f, 0.6101198f, 2.996363f, -0.1684784f},
              "y");
  expect_near(r.input_gradients[0],
              {-0.5778648f, -0.1673696f, -0.07476193f, -0.7080909f, 0.04046337f, -0.02706839f},
              "dx");
}

TEST_P(SequenceValues, CausalSelfAttention) {
  const LayerCase c{SelfAttention{2, true}, {{2, 3, 12}}};
  LayerValues v = make_values(c);
  v.inputs = {fill(1, 72)};
  v.output_gradient = fill(2, 24);
  const LayerResult r = run_layer(*device_, c, v);
  expect_near(r.output,
              {-0.08f,      0.66f,      -0.62f,      0.12f,        0.1383953f,   0.3269472f,
               -0.3752383f, 0.3647617f, 0.1738545f,  -0.01317959f, 0.197685f,    0.397403f,
               0.3f,        -0.98f,     -0.24f,      0.5f,         -0.1710054f,  -0.671144f,
               -0.0139793f, 0.1553184f, -0.3643607f, -0.2236183f,  0.008208695f, -0.1783301f},
              "y");
  expect_near(r.evaluated, r.output, "y in evaluation");
  expect_near(r.input_gradients[0],
              {0,
               0,
               0,
               0,
               0.1421202f,
               -0.08706555f,
               0.02978759f,
               -0.02646327f,
               -0.605007f,
               0.3256627f,
               0.3409345f,
               -0.739531f,
               0.1574472f,
               -0.1032441f,
               0.03810229f,
               -0.02498511f,
               -0.1926787f,
               0.1404329f,
               0.1285183f,
               0.05460654f,
               0.460669f,
               0.07525708f,
               0.06138032f,
               -0.3357973f,
               -0.2178579f,
               0.2405212f,
               0.1138851f,
               0.1583106f,
               0.05055851f,
               -0.05336732f,
               -0.1583059f,
               -0.02814326f,
               0.264338f,
               -0.0809198f,
               0.1176852f,
               -0.2246718f,
               0,
               0,
               0,
               0,
               -0.1822402f,
               -0.09494368f,
               -0.1598688f,
               0.1260439f,
               0.3445022f,
               0.5182019f,
               -0.6264731f,
               -0.613469f,
               -0.1845996f,
               -0.1845996f,
               -0.2510399f,
               0.1646163f,
               0.1809966f,
               0.04768682f,
               0.2129739f,
               -0.1485115f,
               0.2136112f,
               0.06072847f,
               -0.2730146f,
               -0.2952227f,
               0.139969f,
               0.01436525f,
               0.1188387f,
               -0.1489459f,
               0.001243602f,
               0.04725686f,
               -0.05310513f,
               0.02246755f,
               -0.05811342f,
               0.1210696f,
               -0.2205122f,
               -0.01130832f},
              "dx");
}

TEST_P(SequenceValues, SelfAttentionToAllTokens) {
  const LayerCase c{SelfAttention{2, false}, {{2, 3, 12}}};
  LayerValues v = make_values(c);
  v.inputs = {fill(1, 72)};
  v.output_gradient = fill(2, 24);
  const LayerResult r = run_layer(*device_, c, v);
  expect_near(r.output,
              {0.1859651f,  0.003006419f, 0.2818728f,  0.2949104f,   -0.1102476f,  0.2930829f,
               -0.1372424f, 0.2480217f,   0.1738545f,  -0.01317959f, 0.197685f,    0.397403f,
               -0.1757725f, 0.04743546f,  0.02181787f, -0.1636078f,  -0.1605753f,  -0.4071179f,
               -0.2782711f, 0.1245051f,   -0.3643607f, -0.2236183f,  0.008208695f, -0.1783301f},
              "y");
  expect_near(r.input_gradients[0],
              {0.1131462f,   -0.1417388f,  0.08683803f,  0.2199143f,   0.1104497f,   -0.04750608f,
               0.07868814f,  -0.09542729f, 0.008235478f, 0.2158362f,   -0.04325002f, -0.2315618f,
               0.09748929f,  -0.05301182f, 0.03541655f,  -0.1367411f,  -0.1533369f,  0.01657748f,
               0.2073682f,   -0.01304481f, 0.0451967f,   -0.08078287f, 0.3246389f,   -0.6339956f,
               -0.2178579f,  0.2405212f,   0.1138851f,   0.1583106f,   0.04288717f,  0.0309286f,
               -0.2860563f,  0.1084721f,   0.06656782f,  0.1849466f,   0.2386111f,   -0.4344426f,
               0.21231f,     -0.06609687f, 0.1240114f,   -0.1377881f,  -0.2304953f,  0.01261235f,
               -0.09547998f, 0.09965943f,  0.3134627f,   0.09717672f,  -0.2618026f,  -0.3965542f,
               -0.2248609f,  -0.1028138f,  -0.1467928f,  0.1105212f,   0.1214816f,   0.05348715f,
               0.1710632f,   -0.1859933f,  0.1268923f,   0.2260448f,   -0.6008938f,  -0.1361378f,
               0.139969f,    0.01436525f,  0.1188387f,   -0.1489459f,  0.1090138f,   -0.0660995f,
               -0.07558324f, 0.08633383f,  0.05964499f,  0.3767785f,   -0.2573036f,  -0.387308f},
              "dx");
}

// PyTorch's weights transposed, and one of its two biases zero.
TEST_P(SequenceValues, Lstm) {
  const LayerCase c{Lstm{2}, {{2, 3, 3}}};
  LayerValues v = make_values(c);
  v.inputs = {fill(1, 18)};
  v.parameters = {fill(2, 24), fill(3, 16), fill(4, 8)};
  v.output_gradient = fill(5, 12);
  const LayerResult r = run_layer(*device_, c, v);
  expect_near(r.output,
              {0.02437145f, 0.2303257f, 0.05417936f, 0.2742644f, 0.08244181f, 0.2671706f,
               0.01011187f, 0.2230935f, 0.02278579f, 0.2768295f, 0.08282043f, 0.1419554f},
              "y");
  expect_near(r.evaluated, r.output, "y in evaluation");
  expect_near(r.input_gradients[0],
              {0.05723197f, 0.01862843f, -0.01087074f, 0.02848932f, -0.0140411f, -0.007196175f,
               0.01084952f, -0.006982464f, 0.01240159f, -0.04750975f, -0.02118291f, -0.005688772f,
               0.02081877f, -0.01490701f, -0.0472615f, 0.06004319f, 0.04000608f, 0.04337095f},
              "dx");
  expect_near(
      r.parameter_gradients[0],
      {-0.001874776f, 0.04862763f, -0.006417051f, 0.007885044f, 0.065232f,     -0.0586208f,
       0.005482617f,  0.02470402f, -0.01301663f,  0.1181952f,   0.01169823f,   -5.135993e-06f,
       -0.121025f,    0.0788325f,  0.02141738f,   0.1139541f,   0.004566612f,  -0.03644627f,
       0.0007975616f, 0.01452851f, 0.004176143f,  0.006486827f, -0.005378644f, -0.01692998f},
      "dweight_input");
  expect_near(r.parameter_gradients[1],
              {-0.001874759f, 0.001698256f, -0.001177957f, 0.0007291123f, -0.007644978f,
               0.001625212f, -0.002350087f, 0.002091318f, -0.01426234f, 0.02773535f, -0.007001193f,
               0.0123274f, -0.07049024f, 0.02817287f, -0.01531756f, 0.03450471f},
              "dweight_hidden");
  expect_near(r.parameter_gradients[2],
              {-0.05526551f, 0.1765534f, -0.02620549f, 0.0516808f, -0.2876059f, 0.1373454f,
               -0.04676038f, 0.1700125f},
              "dbias");
}

// cross_entropy with targets that are probabilities (PyTorch 2.15): its mean is over 3 samples.
TEST_P(SequenceValues, CrossEntropyOfMixedLabels) {
  const std::vector<Floats> losses{{0.7442791f, 1.171006f, 0.8089058f},
                                   {0.8630291f, 1.221006f, 0.9120308f}};
  const std::vector<Floats> gradients{
      {-0.03192174f, 0.01147148f, -0.01958918f, 0.0400394f, 0.06808619f, -0.1373009f, 0.02613137f,
       0.04308335f, 0.007390808f, 0.1156117f, 0.06188249f, -0.184885f},
      {-0.03192174f, 0.003138145f, -0.002922519f, 0.03170606f, 0.07225285f, -0.1248009f,
       0.01779804f, 0.03475001f, -0.0009425252f, 0.1072784f, 0.05354916f, -0.159885f}};
  for (const std::size_t smoothed : {0u, 1u}) {
    const LayerCase c{SoftmaxCrossEntropy{.smoothing = smoothed == 1 ? 0.1f : 0.0f, .mixed = true},
                      {{3, 4}}};
    LayerValues v = make_values(c);
    v.inputs = {{0.5f, -1, 2, 0.25f, 1.5f, 0.5f, -0.5f, 0, -2, 0.75f, 0.125f, 1}};
    v.labels = {2, 0, 3, 0, 1, 3};  // the last one mixed with its like
    for (const float share : {0.75f, 0.375f, 0.5f}) {
      v.labels.push_back(std::bit_cast<std::int32_t>(share));
    }
    LayerResult r = run_layer(*device_, c, v);
    expect_near(r.output, losses[smoothed], "losses");
    expect_near(r.evaluated, {0.3692791f, 0.5460064f, 0.8089058f}, "losses of an evaluation");
    EXPECT_EQ(r.correct, (std::vector<std::int32_t>{1, 1, 1}));
    for (float& g : r.input_gradients[0]) g *= test::kLossSamples / 3.0f;
    expect_near(r.input_gradients[0], gradients[smoothed], "dx");
  }
}

// The mean over 24 samples, where PyTorch's numbers are for 2.
TEST_P(SequenceValues, SmoothedCrossEntropyOverTokens) {
  const LayerCase c{SoftmaxCrossEntropy{0.1f}, {{2, 2, 3}}};
  LayerValues v = make_values(c);
  v.inputs = {fill(1, 12)};
  v.labels = {1, 1, 0, 1};
  LayerResult r = run_layer(*device_, c, v);
  expect_near(r.output, {0.6298883f, 1.257665f}, "losses");
  expect_near(r.evaluated, {0.562555f, 1.260999f}, "losses without smoothing");
  EXPECT_EQ(r.correct, (std::vector<std::int32_t>{2, 1}));
  for (float& g : r.input_gradients[0]) g *= test::kLossSamples / 2.0f;
  expect_near(r.input_gradients[0],
              {0.05962576f, -0.09089546f, 0.03126971f, 0.05962576f, -0.09089546f, 0.03126971f,
               -0.09898147f, 0.0290215f, 0.06995998f, 0.1260185f, -0.1959785f, 0.06995998f},
              "dx");
}

// As PyTorch with ignore_index = -1: the mean over the labelled tokens.
TEST_P(SequenceValues, CrossEntropyOverSomeTokens) {
  const LayerCase all{SoftmaxCrossEntropy{}, {{2, 1, 3}}};
  const LayerCase some{SoftmaxCrossEntropy{.labelled = 1}, {{2, 2, 3}}};
  LayerValues v = make_values(all);
  v.inputs = {fill(1, 6)};
  v.labels = {1, 2};
  const LayerResult alone = run_layer(*device_, all, v);
  const Floats& x = v.inputs[0];
  LayerValues w = make_values(some);
  w.inputs = {{x[0], x[1], x[2], 9, -9, 0, 5, 5, 5, x[3], x[4], x[5]}};
  w.labels = {1, kNoLabel, kNoLabel, 2};
  const LayerResult r = run_layer(*device_, some, w);
  EXPECT_EQ(r.output, alone.output);
  EXPECT_EQ(r.evaluated, alone.evaluated);
  EXPECT_EQ(r.correct, alone.correct);
  const Floats& dx = alone.input_gradients[0];
  EXPECT_EQ(r.input_gradients[0],
            (Floats{dx[0], dx[1], dx[2], 0, 0, 0, 0, 0, 0, dx[3], dx[4], dx[5]}));
}

// A token's row; the gradient of one that comes twice is a sum.
TEST_P(SequenceValues, Embedding) {
  const LayerCase c{Embedding{3, 2}, {{2, 2}}};
  LayerValues v = make_values(c);
  v.inputs = {{2, 0, 2, 2}};
  v.parameters = {{1, 2, 3, 4, 5, 6}};
  v.output_gradient = {1, 2, 3, 4, 10, 20, 100, 200};
  const LayerResult r = run_layer(*device_, c, v);
  EXPECT_EQ(r.output, (Floats{5, 6, 1, 2, 5, 6, 5, 6}));
  EXPECT_EQ(r.parameter_gradients[0], (Floats{3, 4, 0, 0, 111, 222}));
  EXPECT_EQ(r.input_gradients[0], (Floats{0, 0, 0, 0}));
}

TEST_P(SequenceValues, PositionEmbedding) {
  const LayerCase c{PositionEmbedding{.positions = 3}, {{2, 2, 1}}};
  LayerValues v = make_values(c);
  v.inputs = {{1, 2, 3, 4}};
  v.parameters = {{10, 20, 30}};
  v.output_gradient = {1, 2, 30, 40};
  const LayerResult r = run_layer(*device_, c, v);
  EXPECT_EQ(r.output, (Floats{11, 22, 13, 24}));
  EXPECT_EQ(r.parameter_gradients[0], (Floats{31, 42, 0}));
  EXPECT_EQ(r.input_gradients[0], v.output_gradient);
}

// The weight of an embedding as that of the output: y = x W^T, row by row.
TEST_P(SequenceValues, TransposedLinear) {
  const LayerCase c{Linear{.output_features = 3, .bias = false, .transposed = true}, {{1, 2, 2}}};
  LayerValues v = make_values(c);
  v.inputs = {{1, 10, 2, 20}};
  v.parameters = {{1, 2, 3, 4, 5, 6}};
  v.output_gradient = {1, 0, 0, 0, 0, 1};
  const LayerResult r = run_layer(*device_, c, v);
  EXPECT_EQ(r.output, (Floats{21, 43, 65, 42, 86, 130}));
  EXPECT_EQ(r.input_gradients[0], (Floats{1, 2, 5, 6}));
  EXPECT_EQ(r.parameter_gradients[0], (Floats{1, 10, 0, 0, 2, 20}));
}

INSTANTIATE_TEST_SUITE_P(Devices, SequenceValues, testing::Values("cpu", "reference"));

}  // namespace sequence_values_test
}  // namespace hetpipe
