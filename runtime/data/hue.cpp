// SPDX-License-Identifier: Apache-2.0
#include "runtime/data/hue.h"

#include <algorithm>
#include <cmath>

namespace hetpipe {
namespace {

struct Hsv {
  std::uint8_t hue, saturation, value;
};

// Floats and doubles as in Pillow's rgb2hsv_row, whose bits depend on them.
Hsv hsv_of(const std::uint8_t* rgb) {
  const std::uint8_t most = std::max({rgb[0], rgb[1], rgb[2]});
  const std::uint8_t least = std::min({rgb[0], rgb[1], rgb[2]});
  if (most == least) return {0, 0, most};
  const auto range = static_cast<float>(most - least);
  const auto below = [&](int c) { return static_cast<float>(most - rgb[c]) / range; };
  float hue = 0;
  if (rgb[0] == most) {
    hue = below(2) - below(1);
  } else if (rgb[1] == most) {
    hue = static_cast<float>(2.0 + static_cast<double>(below(0)) - static_cast<double>(below(2)));
  } else {
    hue = static_cast<float>(4.0 + static_cast<double>(below(1)) - static_cast<double>(below(0)));
  }
  hue = static_cast<float>(std::fmod(static_cast<double>(hue) / 6.0 + 1.0, 1.0));
  const float saturation = range / static_cast<float>(most);
  return {static_cast<std::uint8_t>(static_cast<double>(hue) * 255.0),
          static_cast<std::uint8_t>(static_cast<double>(saturation) * 255.0), most};
}

// Likewise its hsv2rgb.
void write_rgb(const Hsv& hsv, std::uint8_t* rgb) {
  if (hsv.saturation == 0) {
    std::fill_n(rgb, 3, hsv.value);
    return;
  }
  const double turns = static_cast<double>(hsv.hue) * 6.0 / 255.0;  // 0 ... 6
  const int sixth = static_cast<int>(std::floor(turns));
  const auto rest = static_cast<double>(static_cast<float>(turns - sixth));
  const auto saturation = static_cast<double>(static_cast<float>(hsv.saturation / 255.0));
  const auto scaled = [&](double less) {
    return static_cast<std::uint8_t>(std::clamp(std::round(hsv.value * (1.0 - less)), 0.0, 255.0));
  };
  const std::uint8_t v = hsv.value, p = scaled(saturation), q = scaled(saturation * rest),
                     t = scaled(saturation * (1.0 - rest));
  const std::uint8_t of_sixth[6][3] = {{v, t, p}, {q, v, p}, {p, v, t},
                                       {p, q, v}, {t, p, v}, {v, p, q}};
  std::copy_n(of_sixth[sixth % 6], 3, rgb);
}

}  // namespace

void turn_hue(Image& image, std::uint8_t by) {
  if (image.channels != 3) return;
  for (std::size_t i = 0; i < image.pixels.size(); i += 3) {
    Hsv hsv = hsv_of(&image.pixels[i]);
    hsv.hue = static_cast<std::uint8_t>(hsv.hue + by);
    write_rgb(hsv, &image.pixels[i]);
  }
}

}  // namespace hetpipe
