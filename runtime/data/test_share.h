// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/data/dataset.h"
#include "runtime/data/image_source.h"

// A test split taken from the training samples of a data set that has none.
namespace hetpipe {

// Whether each sample is for testing: of every class with n samples round(share * n), drawn by a
// fixed permutation, so that the same data give the same split wherever and whenever it is taken.
// With key = random_key({hash_text("test share"), class}), sample j of a class (in the order of the
// samples) is for testing where permuted(key, n, j) < round(share * n). UserError, said of `where`,
// for a split without samples, or a training split without samples of some class.
std::vector<bool> test_members(std::span<const std::int32_t> labels, double share,
                               const std::string& where);

// The images of both splits. UserError where there is a test split already.
ImageSources with_test_share(ImageSources sources, double share, const std::string& where);

// One split of a data set that was read whole, with both parts, as training samples.
Dataset split_of(const Dataset& whole, double share, Split split, Parts parts);

}  // namespace hetpipe
