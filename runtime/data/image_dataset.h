// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/data/dataset.h"
#include "runtime/data/image_source.h"
#include "runtime/data/transforms.h"

// Data sets of images that are transformed on their way to the network.
namespace hetpipe {

struct ImageRules {
  std::vector<Transform> train, test;  // of each split
  PixelScale scale;                    // of what they give
  std::uint64_t seed = 0;              // of what is random in them
  int skip_damaged = 0;                // so many damaged images are replaced, by this rank
  bool any() const { return !train.empty() || !test.empty() || scale.channels > 0; }
};

// "imagenet", "cifar10", "fashion-mnist", "none", or "MEAN,.../DEVIATION,..." of shares from 0 to
// 1, a pair for each channel. UserError, said of `option`.
PixelScale parse_pixel_scale(const std::string& text, const std::string& option);

// Images of a source, read and decoded when a minibatch needs them: RGB, unless Grayscale is among
// the transforms. Their size is that after the transforms or, where these leave it, the first
// image's; an image of another size is a UserError. A damaged one is a UserError too, or is
// replaced by the next one of its class, with a warning.
Dataset image_dataset(std::shared_ptr<const ImageSource> source, int classes,
                      const std::string& name, const ImageRules& rules, Split split, Parts parts);

// The same of a data set that holds pixels. UserError where there are transforms and it holds none.
Dataset with_transforms(Dataset dataset, const ImageRules& rules, Split split, Parts parts);

}  // namespace hetpipe
