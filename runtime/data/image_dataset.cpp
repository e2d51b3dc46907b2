// SPDX-License-Identifier: Apache-2.0
#include "runtime/data/image_dataset.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <set>

#include "base/error.h"
#include "base/hash.h"
#include "base/text.h"

namespace hetpipe {
namespace {

const std::vector<Transform>& of_split(const ImageRules& rules, Split split) {
  return split == Split::train ? rules.train : rules.test;
}

class TransformedImages final : public SampleStore {
 public:
  TransformedImages(std::shared_ptr<const ImageSource> source, const Dataset& shape,
                    int source_channels, const ImageRules& rules, Split split)
      : source_(std::move(source)),
        size_{shape.height, shape.width},
        channels_(source_channels),
        rules_(rules),
        split_(split) {
    for (int c = 0; c < rules.scale.channels; ++c) {
      const float mean = rules.scale.mean[static_cast<std::size_t>(c)];
      erased_.push_back(static_cast<std::uint8_t>(std::lround(mean * 255)));
    }
  }
  SampleType type() const override { return SampleType::pixels; }
  // The source has the labels beside the data set's own.
  std::int64_t held_bytes() const override {
    return source_->held_bytes() +
           static_cast<std::int64_t>(source_->labels().size() * sizeof(std::int32_t));
  }
  void read(SampleKey key, std::byte* out) const override {
    for (std::int64_t index = key.index;;) {
      try {
        const Image image = made(key, index);
        std::memcpy(out, image.pixels.data(), image.pixels.size());
        return;
      } catch (const UserError& error) {
        index = instead_of(index, error);
      }
    }
  }

 private:
  Image made(SampleKey key, std::int64_t index) const {
    const std::string name = source_->name(index);
    Image image = transformed(source_->fetch(index), name, channels_, of_split(rules_, split_),
                              rules_.seed, key, erased_);
    if (ImageSize{image.height, image.width} == size_) return image;
    throw UserError(name,
                    format("is %d x %d pixels (others are %d x %d). Say which size the "
                           "network gets, as in --train-transforms \"RandomResizedCrop(224)\" "
                           "--test-transforms \"Resize(256), CenterCrop(224)\".",
                           image.height, image.width, size_.height, size_.width));
  }

  // The next image of the class.
  std::int64_t instead_of(std::int64_t index, const UserError& error) const {
    const std::lock_guard lock(mutex_);
    const std::vector<std::int32_t>& labels = source_->labels();
    if (rules_.skip_damaged == 0 || labels.empty()) throw error;
    if (damaged_.insert(index).second) {
      if (static_cast<int>(damaged_.size()) > rules_.skip_damaged) {
        throw UserError("--skip-damaged", format("%d was exceeded by one more: %s",
                                                 rules_.skip_damaged, error.what()));
      }
      std::fprintf(stderr, "hetpipe: warning: another image of its class is used: %s\n",
                   error.what());
    }
    const std::int32_t own = labels[static_cast<std::size_t>(index)];
    const std::int64_t size = source_->size();
    for (std::int64_t i = 1; i < size; ++i) {
      const std::int64_t other = (index + i) % size;
      if (labels[static_cast<std::size_t>(other)] == own && !damaged_.contains(other)) return other;
    }
    throw error;
  }

  const std::shared_ptr<const ImageSource> source_;
  const ImageSize size_;
  const int channels_;
  const ImageRules rules_;
  const Split split_;
  std::vector<std::uint8_t> erased_;
  mutable std::mutex mutex_;
  mutable std::set<std::int64_t> damaged_;
};

// Of a data set that holds pixels.
class PixelSource final : public ImageSource {
 public:
  // Without labels: no other image takes the place of a damaged one.
  explicit PixelSource(Dataset dataset) : dataset_(std::move(dataset)) {}
  StoredImage fetch(std::int64_t index) const override {
    Image image{dataset_.height, dataset_.width, dataset_.channels, {}};
    image.pixels.resize(static_cast<std::size_t>(dataset_.sample_values()));
    dataset_.copy_stored({0, index}, reinterpret_cast<std::byte*>(image.pixels.data()));
    return image;
  }
  std::string name(std::int64_t index) const override {
    return format("%s, sample %lld", dataset_.name.c_str(), static_cast<long long>(index));
  }
  std::int64_t held_bytes() const override {
    return static_cast<std::int64_t>(dataset_.pixels.size()) +
           (dataset_.store ? dataset_.store->held_bytes() : 0);
  }

 private:
  const Dataset dataset_;
};

void check_scale(const PixelScale& scale, int channels) {
  if (scale.channels == 0 || scale.channels == channels) return;
  throw UserError("--normalize", format("has %d channels (the images have %d). Give a mean and a "
                                        "deviation for each.",
                                        scale.channels, channels));
}

}  // namespace

PixelScale parse_pixel_scale(const std::string& text, const std::string& option) {
  static const std::map<std::string, PixelScale> known{
      {"none", {}},
      {"imagenet", {3, {.485f, .456f, .406f}, {.229f, .224f, .225f}}},
      {"cifar10", {3, {.4914f, .4822f, .4465f}, {.2470f, .2435f, .2616f}}},
      {"fashion-mnist", {1, {.2860f}, {.3530f}}}};
  if (const auto found = known.find(text); found != known.end()) return found->second;
  const auto numbers = [&](const std::string& list, std::array<float, 4>& to, bool positive) {
    int count = 0;
    for (const std::string& part : split(list, ',')) {
      float value = 0;
      const auto [stop, error] = std::from_chars(part.data(), part.data() + part.size(), value);
      const bool sound = error == std::errc() && stop == part.data() + part.size() &&
                         std::isfinite(value) && (!positive || value > 0) && count < 4;
      if (!sound) return 0;
      to[static_cast<std::size_t>(count++)] = value;
    }
    return count;
  };
  const std::size_t slash = text.find('/');
  PixelScale scale;
  if (slash != std::string::npos) {
    scale.channels = numbers(text.substr(0, slash), scale.mean, false);
    if (scale.channels == numbers(text.substr(slash + 1), scale.deviation, true) &&
        scale.channels > 0) {
      return scale;
    }
  }
  throw UserError(option, "'" + text +
                              "' is no normalisation. Give none, imagenet, cifar10, fashion-mnist, "
                              "or a mean and a deviation for each channel, as in "
                              "0.485,0.456,0.406/0.229,0.224,0.225.");
}

Dataset image_dataset(std::shared_ptr<const ImageSource> source, int classes,
                      const std::string& name, const ImageRules& rules, Split split, Parts parts) {
  constexpr int kChannels = 3;
  const std::vector<Transform>& all = of_split(rules, split);
  Dataset dataset;
  dataset.name = name;
  dataset.size = source->size();
  dataset.classes = classes;
  dataset.channels = channels_after(all, kChannels);
  check_scale(rules.scale, dataset.channels);
  auto size = size_after(all, std::nullopt);
  if (!size) size = size_after(all, size_of(source->fetch(0), source->name(0)));
  dataset.height = size->height;
  dataset.width = size->width;
  std::uint64_t names = 0;
  for (std::int64_t i = 0; i < source->size(); ++i) {
    const std::string path = source->name(i);  // ends alike on every node
    names = hash_text(path.substr(path.rfind('/') + 1), names);
  }
  dataset.fingerprint =
      dataset_fingerprint(dataset, source->labels(), std::as_bytes(std::span(&names, 1)));
  dataset.scale = rules.scale;
  if (wants_labels(parts)) dataset.labels = source->labels();
  if (wants_images(parts)) {
    dataset.store =
        std::make_shared<TransformedImages>(std::move(source), dataset, kChannels, rules, split);
  }
  return dataset;
}

Dataset with_transforms(Dataset dataset, const ImageRules& rules, Split split, Parts parts) {
  const std::vector<Transform>& all = of_split(rules, split);
  if (!rules.any()) return dataset;
  const bool pixels = dataset.channels > 0 && dataset.extents.empty() &&
                      (!dataset.has_images() || dataset.sample_type() == SampleType::pixels);
  if (!pixels) {
    throw UserError(rules.scale.channels > 0 ? "--normalize" : "--train-transforms",
                    "is for images of bytes (" + dataset.name + " holds none). Leave it out.");
  }
  const int channels = dataset.channels;
  if (!all.empty() && channels != 1 && channels != 3) {
    throw UserError("--train-transforms",
                    format("are for images of 1 or 3 channels (%s has %d). Leave them out.",
                           dataset.name.c_str(), channels));
  }
  Dataset changed = dataset;
  const ImageSize size = *size_after(all, ImageSize{dataset.height, dataset.width});
  changed.height = size.height;
  changed.width = size.width;
  changed.channels = channels_after(all, channels);
  check_scale(rules.scale, changed.channels);
  changed.scale = rules.scale;
  if (all.empty() || !wants_images(parts)) return changed;
  changed.pixels = {};
  changed.store = std::make_shared<TransformedImages>(
      std::make_shared<PixelSource>(std::move(dataset)), changed, channels, rules, split);
  return changed;
}

}  // namespace hetpipe
