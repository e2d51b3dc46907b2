// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <span>

#include "base/error.h"
#include "base/file.h"
#include "base/index.h"
#include "base/text.h"
#include "launch/command/output_file.h"
#include "launch/command/sample_options.h"
#include "launch/data/actions.h"
#include "runtime/data/mixing.h"
#include "runtime/data/prefetch.h"
#include "runtime/training/data_feed.h"
#include "runtime/training/training_data.h"

namespace hetpipe {
namespace {

// What both actions look at.
struct LookOptions {
  std::optional<std::string> data;
  std::optional<double> test_share;
  std::string split = "train";
  std::int64_t epoch = 0;
  std::int64_t seed = 1;
  SampleOptions samples;
  int count = 64;
  std::optional<std::string> output;  // of a sheet
  double seconds = 5;                 // of a measurement
};

OptionGroup data_group(LookOptions& options) {
  return {
      "Data",
      {
          required(
              text_option("data", "DATA", options.data, "Data set, as hetpipe train takes it.")),
          real_option("test-share", "F", options.test_share, {0, 1, true}, "As in hetpipe train."),
          choice_option("split", options.split, {"train", "test"}, "Which samples."),
          integer_option("epoch", "N", options.epoch, {0, 1e15},
                         "Epoch whose order and transforms are taken."),
          integer_option("seed", "N", options.seed, {0}, "Seed of the training."),
      }};
}

Dataset open_look(const LookOptions& options) {
  const Split split = options.split == "train" ? Split::train : Split::test;
  Dataset data = open_training_data({.model = {},
                                     .data = *options.data,
                                     .test_share = options.test_share,
                                     .images = image_rules(options.samples, options.seed)},
                                    split, Parts::both);
  if (split == Split::test && options.samples.mixes.any()) {
    throw UserError(options.samples.mixes.option(),
                    "is for training samples (--split says test). Leave out one of them.");
  }
  mix_by(options.samples.mixes, data);
  return data;
}

// Positions of an epoch, in its order.
Sampler order_of(const LookOptions& options, const Dataset& data) {
  return Sampler(static_cast<std::uint64_t>(options.seed), data.size, {1}, 0,
                 (options.epoch + 1) * data.size, 0,
                 options.split == "train" ? SampleOrder::shuffled : SampleOrder::file);
}

// Mixed samples are what the network receives: as bytes again.
std::vector<std::uint8_t> pixels_of(const Dataset& data, const Batch& batch) {
  if (batch.images.type() == SampleType::pixels) {
    const auto pixels = batch.images.as<std::uint8_t>();
    return {pixels.begin(), pixels.end()};
  }
  std::vector<std::uint8_t> pixels;
  pixels.reserve(batch.images.values());
  for (const float value : batch.images.as<float>()) {
    const auto c = pixels.size() % at(std::max(data.scale.channels, 1));
    const float share =
        data.scale.channels == 0 ? value : value * data.scale.deviation[c] + data.scale.mean[c];
    pixels.push_back(static_cast<std::uint8_t>(std::lround(std::clamp(share, 0.0f, 1.0f) * 255)));
  }
  return pixels;
}

// Samples side by side, row by row, two pixels apart.
Image sheet_of(const Dataset& data, const Batch& batch) {
  constexpr int kGap = 2;
  const int across = static_cast<int>(std::ceil(std::sqrt(batch.count)));
  const int down = (batch.count + across - 1) / across;
  Image sheet{
      down * (data.height + kGap) - kGap, across * (data.width + kGap) - kGap, data.channels, {}};
  sheet.pixels.resize(at(sheet.height) * at(sheet.width) * at(sheet.channels), 255);
  const std::vector<std::uint8_t> drawn = pixels_of(data, batch);
  const std::span<const std::uint8_t> pixels = drawn;
  const std::size_t row = at(data.width) * at(data.channels);
  for (int n = 0; n < batch.count; ++n) {
    const std::size_t top = at(n / across * (data.height + kGap));
    const std::size_t left = at(n % across * (data.width + kGap));
    for (std::size_t y = 0; y < at(data.height); ++y) {
      const auto from = pixels.subspan((at(n) * at(data.height) + y) * row, row);
      const std::size_t to = ((top + y) * at(sheet.width) + left) * at(sheet.channels);
      std::copy(from.begin(), from.end(), sheet.pixels.begin() + static_cast<std::ptrdiff_t>(to));
    }
  }
  return sheet;
}

}  // namespace

int data_show(const Invocation& how) {
  LookOptions options;
  OptionTable table{
      "data show",
      "Draws samples as the network sees them, transformed, in the order in which "
      "an epoch trains on them, and prints their labels.",
      {data_group(options),
       sample_options(options.samples, MixedSamples::yes),
       {"Sheet",
        {
            integer_option("count", "N", options.count, {1, 10'000}, "Samples."),
            required(text_option("output", "FILE.png", options.output, "Where to draw.")),
        }}}};
  const auto check = [&](Problems& problems) {
    if (options.output) check_output_file("--output", *options.output, problems);
  };
  if (!read_options(table, how, check)) return 0;
  const Dataset data = open_look(options);
  if (data.channels == 0 || data.sample_type() != SampleType::pixels) {
    throw UserError("--data", data.name +
                                  " holds no images of bytes (they are what can be "
                                  "drawn). Give other data.");
  }
  const Sampler order = order_of(options, data);
  std::vector<std::int64_t> positions;
  const std::int64_t first = options.epoch * data.size;
  for (std::int64_t i = 0; i < std::min<std::int64_t>(options.count, data.size); ++i) {
    positions.push_back(first + i);
  }
  const Batch batch =
      assemble_positions(data, order, positions, ordinary_memory, options.samples.data_threads);
  write_file(*options.output, encode_png(sheet_of(data, batch)));
  std::printf("%s: %d of %lld samples, %d x %d pixels, labels", options.output->c_str(),
              batch.count, static_cast<long long>(data.size), data.height, data.width);
  for (std::size_t n = 0; n < batch.labels.size(); ++n) {
    std::printf(" %d", batch.labels[n]);
    if (batch.mixed.empty()) continue;
    std::printf("*%.2f+%d", static_cast<double>(batch.mixed[n].share), batch.mixed[n].other);
  }
  std::printf("\n");
  return 0;
}

int data_speed(const Invocation& how) {
  LookOptions options;
  OptionTable table{
      "data speed",
      "Measures how many samples a second this machine reads, decodes and transforms "
      "in the order of an epoch.",
      {data_group(options),
       sample_options(options.samples, MixedSamples::yes),
       {"Measurement",
        {
            integer_option("count", "N", options.count, {1, 10'000}, "Samples of a minibatch."),
            real_option("seconds", "S", options.seconds, {0.1, 3600},
                        "For so long, after one minibatch that does not count."),
        }}}};
  if (!read_options(table, how, [](Problems&) {})) return 0;
  const Dataset data = open_look(options);
  const Sampler order = order_of(options, data);
  const std::int64_t first = options.epoch * data.size;
  const FeedRate rate = measure_feed(data, order, first, options.count,
                                     options.samples.data_threads, options.seconds);
  std::printf("%.0f samples/s with %d %s, which kept %.1f cores busy\n", rate.samples_per_second,
              rate.threads, rate.threads == 1 ? "thread" : "threads", rate.cores);
  return 0;
}

}  // namespace hetpipe
