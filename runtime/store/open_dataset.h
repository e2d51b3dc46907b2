// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/sample_format.h"
#include "runtime/data/dataset.h"
#include "runtime/data/text.h"

namespace hetpipe {

// Any data set by its name on the command line: text when it begins with "text:"
// (runtime/data/text.h), tokens when it begins with "tokens:" (token_files.h), HDF5 when it ends in
// .h5 or .hdf5 (hdf5_dataset.h), else a folder of IDX files or "fashion-mnist"
// (runtime/data/idx.h). `task` is that of a text.
Dataset open_dataset(const std::string& spec, Split split, Parts parts,
                     TextTask task = TextTask::next_token);

// The same for an exported model: an HDF5 file has a dataset for each of its inputs, by name
// (named_dataset.h).
Dataset open_dataset(const std::string& spec, Split split, Parts parts, const SampleFormat& format);

// Whether it is the name of HDF5 files.
bool is_hdf5(const std::string& spec);

// Whether there are test samples to open: an HDF5 file may hold only a train split.
bool has_test_split(const std::string& spec);

}  // namespace hetpipe
