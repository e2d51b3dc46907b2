// SPDX-License-Identifier: Apache-2.0
#include "runtime/data/transforms.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/hash.h"
#include "runtime/data/hue.h"

namespace hetpipe {
namespace {

namespace t = transforms;

std::size_t place(const Image& image, int row, int column) {
  return (static_cast<std::size_t>(row) * static_cast<std::size_t>(image.width) +
          static_cast<std::size_t>(column)) *
         static_cast<std::size_t>(image.channels);
}

// The part of an image that begins there; what lies outside of it is black.
Image cut(const Image& image, int top, int left, int height, int width) {
  Image out{height, width, image.channels, {}};
  out.pixels.resize(place(out, height, 0));
  const int first = std::max(0, -left), end = std::min(width, image.width - left);
  for (int row = std::max(0, -top); row < std::min(height, image.height - top); ++row) {
    if (end <= first) break;
    const std::size_t from = place(image, top + row, left + first);
    std::copy_n(image.pixels.begin() + static_cast<std::ptrdiff_t>(from),
                (end - first) * image.channels,
                out.pixels.begin() + static_cast<std::ptrdiff_t>(place(out, row, first)));
  }
  return out;
}

// torchvision's: half of what is left, to the nearest even number.
int half(int left) { return static_cast<int>(std::nearbyint(left / 2.0)); }

Image center_cut(const Image& image, int height, int width) {
  // Black is added first, floor((wanted - there) / 2) before.
  const int top =
      image.height >= height ? half(image.height - height) : -((height - image.height) / 2);
  const int left = image.width >= width ? half(image.width - width) : -((width - image.width) / 2);
  return cut(image, top, left, height, width);
}

void mirror(Image& image) {
  for (int row = 0; row < image.height; ++row) {
    for (int a = 0, b = image.width - 1; a < b; ++a, --b) {
      std::swap_ranges(image.pixels.begin() + static_cast<std::ptrdiff_t>(place(image, row, a)),
                       image.pixels.begin() + static_cast<std::ptrdiff_t>(place(image, row, a + 1)),
                       image.pixels.begin() + static_cast<std::ptrdiff_t>(place(image, row, b)));
    }
  }
}

void turn_over(Image& image) {
  for (int a = 0, b = image.height - 1; a < b; ++a, --b) {
    std::swap_ranges(image.pixels.begin() + static_cast<std::ptrdiff_t>(place(image, a, 0)),
                     image.pixels.begin() + static_cast<std::ptrdiff_t>(place(image, a + 1, 0)),
                     image.pixels.begin() + static_cast<std::ptrdiff_t>(place(image, b, 0)));
  }
}

// A rectangle whose area is a share of the image's, and ratio, as drawn; nothing after ten tries.
std::optional<Crop> draw_box(ImageSize size, t::Range scale, t::Range ratio, bool may_fill,
                             Draws& draws) {
  const double area = static_cast<double>(size.height) * size.width;
  for (int i = 0; i < 10; ++i) {
    const double wanted = area * draws.uniform(scale.from, scale.to);
    const double aspect = std::exp(draws.uniform(std::log(ratio.from), std::log(ratio.to)));
    const int w = static_cast<int>(std::nearbyint(std::sqrt(wanted * aspect)));
    const int h = static_cast<int>(std::nearbyint(std::sqrt(wanted / aspect)));
    const int full = may_fill ? 0 : 1;
    if (w < 1 || h < 1 || w + full > size.width || h + full > size.height) continue;
    const int top = draws.below(size.height - h + 1);
    return Crop{top, draws.below(size.width - w + 1), h, w};
  }
  return std::nullopt;
}

// The largest part in the middle whose ratio is allowed.
Crop middle(ImageSize size, t::Range ratio) {
  const double own = static_cast<double>(size.width) / size.height;
  int w = size.width, h = size.height;
  if (own < ratio.from) h = static_cast<int>(std::nearbyint(w / ratio.from));
  if (own > ratio.to) w = static_cast<int>(std::nearbyint(h * ratio.to));
  return {(size.height - h) / 2, (size.width - w) / 2, h, w};
}

// Of x and y, factor * x + (1 - factor) * y, cut to a byte, as Pillow blends.
std::uint8_t blended(double x, double y, double factor) {
  return static_cast<std::uint8_t>(std::clamp(y + factor * (x - y), 0.0, 255.0));
}

std::uint8_t gray_of(const std::uint8_t* rgb) {
  return static_cast<std::uint8_t>((rgb[0] * 19595 + rgb[1] * 38470 + rgb[2] * 7471 + 0x8000) >>
                                   16);
}

// Brightness: towards black; contrast: towards the mean grey; saturation: towards the pixel's grey.
enum class Towards { black, mean, own };

void enhance(Image& image, Towards towards, double factor) {
  const auto channels = static_cast<std::size_t>(image.channels);
  const auto gray = [&](std::size_t i) {
    return channels == 3 ? gray_of(&image.pixels[i]) : image.pixels[i];
  };
  double mean = 0;
  if (towards == Towards::mean) {
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < image.pixels.size(); i += channels) sum += gray(i);
    const auto count = static_cast<double>(image.pixels.size() / channels);
    mean = std::floor(static_cast<double>(sum) / count + 0.5);
  }
  for (std::size_t i = 0; i < image.pixels.size(); i += channels) {
    const double to = towards == Towards::own ? gray(i) : mean;
    for (std::size_t c = 0; c < channels; ++c) {
      image.pixels[i + c] = blended(image.pixels[i + c], to, factor);
    }
  }
}

ImageSize resized_to(const t::Resize& to, ImageSize from) {
  if (to.both) return {to.height, to.width};
  const int small = std::min(from.height, from.width), large = std::max(from.height, from.width);
  const int other = static_cast<int>(static_cast<std::int64_t>(to.height) * large / small);
  return from.height <= from.width ? ImageSize{to.height, other} : ImageSize{other, to.height};
}

// One image on its way: not decoded before its first transform says what is needed of it.
class Pipeline {
 public:
  Pipeline(const StoredImage& stored, const std::string& name, int channels,
           const std::vector<std::uint8_t>& erased)
      : stored_(stored), name_(name), channels_(channels), erased_(erased) {}

  void operator()(const t::Resize& to, Draws&) {
    const ImageSize size = now();
    const ImageSize wanted = resized_to(to, size);
    resample({0, 0, static_cast<double>(size.height), static_cast<double>(size.width)}, wanted);
  }
  void operator()(const t::RandomResizedCrop& to, Draws& draws) {
    const ImageSize size = now();
    const Crop box = drawn_crop(size, to, draws);
    resample({static_cast<double>(box.top), static_cast<double>(box.left),
              static_cast<double>(box.height), static_cast<double>(box.width)},
             {to.height, to.width});
  }
  void operator()(const t::CenterCrop& to, Draws&) {
    whole() = center_cut(whole(), to.height, to.width);
  }
  void operator()(const t::Pad& to, Draws&) { pad(to.by); }
  void operator()(const t::RandomCrop& to, Draws& draws) {
    if (to.padding > 0) pad(to.padding);
    const Image& image = whole();
    if (image.height < to.height || image.width < to.width) {
      whole() =
          center_cut(image, std::max(image.height, to.height), std::max(image.width, to.width));
    }
    const int top = draws.below(whole().height - to.height + 1);
    const int left = draws.below(whole().width - to.width + 1);
    whole() = cut(whole(), top, left, to.height, to.width);
  }
  void operator()(const t::RandomHorizontalFlip& to, Draws& draws) {
    if (draws.happens(to.p)) mirror(whole());
  }
  void operator()(const t::RandomVerticalFlip& to, Draws& draws) {
    if (draws.happens(to.p)) turn_over(whole());
  }
  void operator()(const t::ColorJitter& to, Draws& draws) {
    int order[] = {0, 1, 2, 3};
    for (int i = 3; i > 0; --i) std::swap(order[i], order[draws.below(i + 1)]);
    const double most[] = {to.brightness, to.contrast, to.saturation};
    double factors[3];
    for (int i = 0; i < 3; ++i) {
      factors[i] = draws.uniform(std::max(0.0, 1 - most[i]), 1 + most[i]);
    }
    const double hue = draws.uniform(-to.hue, to.hue);
    for (const int i : order) {
      if (i == 3) {
        if (to.hue > 0) turn_hue(whole(), static_cast<std::uint8_t>(static_cast<int>(hue * 255)));
      } else if (most[i] > 0) {
        enhance(whole(), static_cast<Towards>(i), factors[i]);
      }
    }
  }
  void operator()(const t::RandomErasing& to, Draws& draws) {
    if (!draws.happens(to.p)) return;
    Image& image = whole();
    const auto box = draw_box({image.height, image.width}, to.scale, to.ratio, false, draws);
    if (!box) return;
    for (int row = box->top; row < box->top + box->height; ++row) {
      for (int column = box->left; column < box->left + box->width; ++column) {
        for (int c = 0; c < image.channels; ++c) {
          image.pixels[place(image, row, column) + static_cast<std::size_t>(c)] =
              erased_.empty() ? 0 : erased_[static_cast<std::size_t>(c)];
        }
      }
    }
  }
  void operator()(const t::Grayscale& to, Draws&) {
    whole() = with_channels(with_channels(std::move(whole()), 1), to.channels);
  }

  Image take() { return std::move(whole()); }

 private:
  ImageSize now() {
    return image_ ? ImageSize{image_->height, image_->width} : size_of(stored_, name_);
  }
  Image& whole() {
    if (!image_) image_ = with_channels(decoded(stored_, name_), channels_);
    return *image_;
  }
  void pad(int by) {
    whole() = cut(whole(), -by, -by, whole().height + 2 * by, whole().width + 2 * by);
  }
  void resample(Box box, ImageSize to) {
    if (image_) {
      image_ = resampled(*image_, box, to.height, to.width);
    } else {
      const ImagePart part = part_of(stored_, name_, box, to);
      image_ = with_channels(resampled(part.image, part.box, to.height, to.width), channels_);
    }
  }

  const StoredImage& stored_;
  const std::string& name_;
  const int channels_;
  const std::vector<std::uint8_t>& erased_;
  std::optional<Image> image_;
};

}  // namespace

Draws::Draws(std::uint64_t seed, SampleKey key, int step)
    : key_(random_key({seed, hash_text("transforms"), static_cast<std::uint64_t>(key.epoch),
                       static_cast<std::uint64_t>(key.index), static_cast<std::uint64_t>(step)})) {}

double Draws::uniform(double from, double to) {
  return from + (to - from) * static_cast<double>(random_uniform(key_, next_++));
}

int Draws::below(int count) { return std::min(count - 1, static_cast<int>(uniform(0, 1) * count)); }

Crop drawn_crop(ImageSize size, const t::RandomResizedCrop& of, Draws& draws) {
  return draw_box(size, of.scale, of.ratio, true, draws).value_or(middle(size, of.ratio));
}

bool is_random(const Transform& transform) {
  return !std::holds_alternative<t::Resize>(transform) &&
         !std::holds_alternative<t::CenterCrop>(transform) &&
         !std::holds_alternative<t::Pad>(transform) &&
         !std::holds_alternative<t::Grayscale>(transform);
}

std::optional<ImageSize> size_after(const std::vector<Transform>& all,
                                    std::optional<ImageSize> size) {
  for (const Transform& transform : all) {
    std::visit(
        [&](const auto& to) {
          using T = std::decay_t<decltype(to)>;
          if constexpr (std::is_same_v<T, t::Resize>) {
            if (to.both || size) size = resized_to(to, size.value_or(ImageSize{1, 1}));
          } else if constexpr (std::is_same_v<T, t::Pad>) {
            if (size) size = {size->height + 2 * to.by, size->width + 2 * to.by};
          } else if constexpr (std::is_same_v<T, t::CenterCrop> ||
                               std::is_same_v<T, t::RandomCrop> ||
                               std::is_same_v<T, t::RandomResizedCrop>) {
            size = {to.height, to.width};
          }
        },
        transform);
  }
  return size;
}

int channels_after(const std::vector<Transform>& all, int channels) {
  for (const Transform& transform : all) {
    if (const auto* gray = std::get_if<t::Grayscale>(&transform)) channels = gray->channels;
  }
  return channels;
}

Image transformed(const StoredImage& stored, const std::string& name, int channels,
                  const std::vector<Transform>& all, std::uint64_t seed, SampleKey key,
                  const std::vector<std::uint8_t>& erased) {
  Pipeline pipeline(stored, name, channels, erased);
  for (std::size_t step = 0; step < all.size(); ++step) {
    Draws draws(seed, key, static_cast<int>(step));
    std::visit([&](const auto& to) { pipeline(to, draws); }, all[step]);
  }
  return pipeline.take();
}

}  // namespace hetpipe
