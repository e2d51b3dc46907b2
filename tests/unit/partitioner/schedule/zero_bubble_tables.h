// SPDX-License-Identifier: Apache-2.0
#pragma once

// Tables 5 and 6 of the zero-bubble paper (arXiv 2401.10241), times in ms.
namespace hetpipe::test {

struct ZeroBubbleRow {
  int stages, micro_batches;
  double forward, input_gradient, weight_gradient, message;
  double rates[3];  // of the bubble: 1F1B, ZB-H1, ZB-H2

  // `cost`: the longest time of a stage from its first start to its end.
  double rate(double cost) const {
    return (cost - micro_batches * (forward + input_gradient + weight_gradient)) / cost;
  }
};

inline constexpr ZeroBubbleRow kZeroBubble[] = {
    {8, 24, 18.522, 18.086, 9.337, .601, {.2431, .1585, .1083}},
    {8, 32, 18.513, 18.086, 9.331, .626, {.1985, .1242, .0837}},
    {8, 64, 18.546, 18.097, 9.321, .762, {.1240, .0674, .0444}},
    {8, 24, 29.718, 29.444, 19.927, .527, {.2347, .1323, .0698}},
    {8, 32, 29.802, 29.428, 19.530, .577, {.1898, .1045, .0559}},
    {8, 64, 29.935, 29.621, 19.388, .535, {.1091, .0554, .0294}},
    {16, 48, 11.347, 11.248, 8.132, .377, {.2552, .1397, .0672}},
    {16, 64, 11.307, 11.254, 8.101, .379, {.2082, .1088, .0516}},
    {16, 128, 11.325, 11.308, 8.109, .378, {.1251, .0576, .0266}},
    {32, 96, 10.419, 10.207, 7.715, .408, {.2646, .1421, .0641}},
    {32, 128, 10.408, 10.204, 7.703, .408, {.2168, .1106, .0490}},
    {32, 256, 10.402, 10.248, 7.698, .460, {.1352, .0594, .0257}},
};

}  // namespace hetpipe::test
