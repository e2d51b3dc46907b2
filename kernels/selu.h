// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>

// Constants of self-normalising networks (Klambauer et al. 2017): mean 0 and variance 1 are a fixed
// point of SELU under weights of mean 0 and variance 1/fan_in.
namespace hetpipe {

inline constexpr double kSeluAlpha = 1.6732632423543772;  // eq. 14
inline constexpr double kSeluScale = 1.0507009873554805;
inline constexpr double kSeluFloor = -kSeluScale * kSeluAlpha;  // SELU's limit towards -infinity

// What alpha dropout does to an element: kept * scale + shift, dropped elements become `dropped`
// (section 3: kept values have been set to kSeluFloor where dropped, then the affine map).
struct AlphaDropoutMap {
  double scale, shift, dropped;

  explicit AlphaDropoutMap(double rate)
      : scale(1 / std::sqrt((1 - rate) * (1 + rate * kSeluFloor * kSeluFloor))),
        shift(-scale * rate * kSeluFloor),
        dropped(scale * kSeluFloor + shift) {}
};

}  // namespace hetpipe
