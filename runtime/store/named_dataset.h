// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/sample_format.h"
#include "runtime/data/dataset.h"

// Data sets in HDF5 for models that are exported: a dataset (N, ...) for each of the model's
// arguments, by its name (one alone may also be called "images"), and "labels" (N, ...).
namespace hetpipe {

// spec: as of load_hdf5_dataset, with such datasets in the place of its two. Arrays have PyTorch's
// shapes; images of (C, H, W) may also lie as (N, H, W, C), and without C where that is 1. Bytes of
// images are handed out as x/255, all else unchanged. Labels that are classes are whole numbers
// below `classes`, or `ignore_index`: kNoLabel. Labels that are numbers are held as their bits.
// UserError naming file, dataset, what was found, what is needed and what to do.
Dataset load_named_dataset(const std::string& spec, Split split, Parts parts,
                           const SampleFormat& format);

}  // namespace hetpipe
