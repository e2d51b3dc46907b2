// SPDX-License-Identifier: Apache-2.0
#include "launch/command/sample_options.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace hetpipe {

OptionGroup sample_options(SampleOptions& options, MixedSamples mixed) {
  OptionGroup group{
      "Samples (docs/data.md)",
      {
          text_option("train-transforms", "T,...", options.train_transforms,
                      "What happens to training images, as torchvision writes it: "
                      "\"RandomResizedCrop(224), RandomHorizontalFlip\"."),
          text_option("test-transforms", "T,...", options.test_transforms,
                      "What happens to test images: \"Resize(256), CenterCrop(224)\"."),
          text_option("normalize", "M/D", options.normalize,
                      "Mean and deviation of each channel's share of 255, which pixels are "
                      "normalised by: none, imagenet, cifar10, fashion-mnist, or numbers, as in "
                      "0.5,0.5,0.5/0.2,0.2,0.2."),
          integer_option("skip-damaged", "N", options.skip_damaged, {0, 1'000'000},
                         "Images that may be damaged in the data of a rank: another one of its "
                         "class is used for each, with a warning."),
          integer_option("data-threads", "N", options.data_threads, {1, 256},
                         "Threads per rank that read and decode samples."),
      }};
  if (mixed == MixedSamples::no) return group;
  group.options.push_back(
      real_option("mixup-alpha", "A", options.mixes.mixup_alpha, {0, 1000},
                  "mixup: each training sample becomes share s of it plus 1 - s of another one, s "
                  "drawn from Beta(A, A), and so does its label; 0: not. With --cutmix-alpha too, "
                  "either with probability 1/2."));
  group.options.push_back(
      real_option("cutmix-alpha", "A", options.mixes.cutmix_alpha, {0, 1000},
                  "CutMix: likewise, but a box of another image's pixels is put into it."));
  return group;
}

std::vector<std::string> sample_words(const SampleOptions& options) {
  const SampleOptions defaults;
  std::vector<std::string> words;
  const auto add = [&](const char* option, const std::string& value) {
    words.insert(words.end(), {option, value});
  };
  if (options.train_transforms) add("--train-transforms", *options.train_transforms);
  if (options.test_transforms) add("--test-transforms", *options.test_transforms);
  if (options.normalize != defaults.normalize) add("--normalize", options.normalize);
  if (options.skip_damaged > 0) add("--skip-damaged", std::to_string(options.skip_damaged));
  if (options.data_threads > 1) add("--data-threads", std::to_string(options.data_threads));
  const MixRules& mixes = options.mixes;
  if (mixes.mixup_alpha > 0) add("--mixup-alpha", format("%g", mixes.mixup_alpha));
  if (mixes.cutmix_alpha > 0) add("--cutmix-alpha", format("%g", mixes.cutmix_alpha));
  return words;
}

void check_sample_options(const SampleOptions& options, Problems& problems) {
  try {
    image_rules(options);
  } catch (const UserError& error) {
    for (const Problem& problem : error.problems()) problems.add(problem.where, problem.text);
  }
}

ImageRules image_rules(const SampleOptions& options, std::int64_t seed) {
  ImageRules rules;
  rules.train = parse_transforms(options.train_transforms.value_or(""), "--train-transforms");
  rules.test = parse_transforms(options.test_transforms.value_or(""), "--test-transforms");
  if (std::any_of(rules.test.begin(), rules.test.end(), is_random)) {
    throw UserError("--test-transforms",
                    "holds a random one (test images are the same every time). Give Resize, "
                    "CenterCrop, Pad and Grayscale alone.");
  }
  rules.scale = parse_pixel_scale(options.normalize, "--normalize");
  rules.seed = static_cast<std::uint64_t>(seed);
  rules.skip_damaged = options.skip_damaged;
  return rules;
}

}  // namespace hetpipe
