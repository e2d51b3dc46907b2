// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/sample.h"
#include "base/sample_type.h"
#include "runtime/data/dataset.h"
#include "runtime/data/image.h"
#include "runtime/data/mix_rules.h"
#include "runtime/data/transforms.h"

// Samples of which each holds a part of another one. How it is mixed is a function of (seed, epoch,
// sample), and with what, of the order of its epoch (Sampler::partner): neither depends on the
// plan. docs/mixing.py says it in Python.
namespace hetpipe {

// How much of a sample is its own, and where the rest of it lies: everywhere (mixup), or in a box.
struct Mix {
  float share = 1;
  std::optional<Crop> box;  // may be empty of pixels
};

// Draws 0, 1, ... under random_key({seed, hash_text("mixes"), epoch, index}). With both rules,
// draw 0 < 1/2 is mixup. Draws 1 and 2 are those of beta_share(). Draws 3 and 4 are the column
// and the row of the box's middle; the box is as torchvision.transforms.v2.CutMix cuts it.
Mix drawn_mix(const MixRules& rules, std::uint64_t seed, SampleKey key, ImageSize size);

// Of two even draws in [0, 1), a share that has Beta(alpha, alpha)'s distribution: one half plus
// half of T / sqrt(2 alpha + T^2), where T is Student's with 2 alpha degrees of freedom, drawn as
// in Bailey, "Polar generation of random variates with the t-distribution", 1994. alpha > 0.
double beta_share(double alpha, double first, double second);

// Of mixed samples of such data. Mixup is of what the network receives, so it makes floats that are
// scaled already; boxes are moved as they are stored.
SampleType mixed_type(const MixRules& rules, SampleType stored);

// UserError, said of the option, where samples are no images with a class each.
void check_mixes(const Dataset& data, const MixRules& rules);
// The same, and from now on they are mixed.
void mix_by(const MixRules& rules, Dataset& data);

// Writes sample `own` mixed with `other`, both as the data set stores them, in mixed_type().
void mix_samples(const Dataset& data, const Mix& mix, const std::byte* own, const std::byte* other,
                 std::byte* out);

}  // namespace hetpipe
