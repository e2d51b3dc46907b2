// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/random.h"
#include "base/sample.h"
#include "runtime/data/image.h"

// What happens to an image between its file and the network, with torchvision's names. Everything
// random is a function of (seed, epoch, sample), so that it is the same on any rank and after any
// resume.
namespace hetpipe {

// Uniform draws of one step for one sample: numbers 0, 1, 2, ... under
// random_key({seed, hash_text("transforms"), epoch, index, step}), each 24 bits.
class Draws {
 public:
  Draws(std::uint64_t seed, SampleKey key, int step);
  double uniform(double from, double to);
  int below(int count);  // 0 ... count - 1
  // Whether an event of this probability happens.
  bool happens(double probability) { return uniform(0, 1) < probability; }

 private:
  std::uint64_t key_;
  std::uint64_t next_ = 0;
};

namespace transforms {

struct Range {
  double from = 0, to = 0;
};
// Of the shorter side where `both` is not set.
struct Resize {
  int height = 0, width = 0;
  bool both = false;
};
struct CenterCrop {
  int height = 0, width = 0;
};
struct Pad {
  int by = 0;  // black pixels each way
};
struct RandomCrop {
  int height = 0, width = 0;
  int padding = 0;
};
struct RandomResizedCrop {
  int height = 0, width = 0;
  Range scale{0.08, 1};         // of the area
  Range ratio{3. / 4, 4. / 3};  // width / height, drawn evenly in its logarithm
};
struct RandomHorizontalFlip {
  double p = 0.5;
};
struct RandomVerticalFlip {
  double p = 0.5;
};
// In an order that is drawn too.
struct ColorJitter {
  double brightness = 0, contrast = 0, saturation = 0;
  double hue = 0;  // share of once around
};
// A rectangle becomes the mean colour that is subtracted (Normalize), else black.
struct RandomErasing {
  double p = 0.5;
  Range scale{0.02, 0.33};
  Range ratio{0.3, 3.3};
};
struct Grayscale {
  int channels = 1;
};

}  // namespace transforms

using Transform =
    std::variant<transforms::Resize, transforms::CenterCrop, transforms::Pad,
                 transforms::RandomCrop, transforms::RandomResizedCrop,
                 transforms::RandomHorizontalFlip, transforms::RandomVerticalFlip,
                 transforms::ColorJitter, transforms::RandomErasing, transforms::Grayscale>;

// The part that RandomResizedCrop takes of an image of this size, as torchvision draws it: up to
// ten times an area and a ratio, until both fit, and a place; else the largest part in the middle
// whose ratio is allowed. docs/transforms.py says it in Python.
struct Crop {
  int top = 0, left = 0, height = 0, width = 0;
};
Crop drawn_crop(ImageSize size, const transforms::RandomResizedCrop& of, Draws& draws);

// "RandomResizedCrop(224, scale=(0.2, 1)), RandomHorizontalFlip": as torchvision's constructors
// are called. UserError, said of `option`, naming the part that is wrong.
std::vector<Transform> parse_transforms(std::string_view text, const std::string& option);
bool is_random(const Transform& transform);
// The size after them, of an image of this size or, where it is not known, of any; nothing where it
// depends on the image.
std::optional<ImageSize> size_after(const std::vector<Transform>& all,
                                    std::optional<ImageSize> size);
// Likewise the channels.
int channels_after(const std::vector<Transform>& all, int channels);

// An image of `channels` channels, after the transforms. `erased`: the colour of RandomErasing.
Image transformed(const StoredImage& stored, const std::string& name, int channels,
                  const std::vector<Transform>& all, std::uint64_t seed, SampleKey key,
                  const std::vector<std::uint8_t>& erased);

}  // namespace hetpipe
