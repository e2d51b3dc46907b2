// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "runtime/data/dataset.h"

// Data sets in HDF5: `images` (N, H, W, C) or (N, H, W), uint8 (handed out as x/255) or float32
// (unchanged), and `labels` (N), any integers from 0.
namespace hetpipe {

// spec: "FILE" with groups /train and /test that hold images and labels each; "FILE" with images
// and labels at the top (only train); or "TRAIN.h5,TEST.h5", two files of the latter kind.
// Classes are those of the train labels. Labels are read, and counts compared, whichever parts are
// kept. UserError naming file, dataset, what was found, what is needed and what to do: all problems
// of a split at once.
Dataset load_hdf5_dataset(const std::string& spec, Split split, Parts parts);

// Whether the spec has test samples: not a single file that holds images and labels at the top, or
// a group /train alone.
bool has_hdf5_test_split(const std::string& spec);

}  // namespace hetpipe
