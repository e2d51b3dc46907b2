// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "base/error.h"
#include "runtime/data/dataset.h"
#include "runtime/store/hdf5.h"

// Private to this folder: where the splits of a data set lie, and how its files are opened.
namespace hetpipe {

// UserError when there is no such file, or it is none of HDF5.
hdf5::Id open_data_file(const std::string& path);

struct SplitPlace {
  std::string path;
  std::string group;  // "/train"; "" is the top
};
// spec: "FILE" with groups /train and /test, "FILE" with datasets at the top (only train), or
// "TRAIN.h5,TEST.h5", two files of the latter kind. UserError when the split is not there.
SplitPlace find_split(const std::string& spec, Split wanted);

// What HDF5 cannot read in a file that it has opened is damage: the user's data, not the machine.
template <class Read>
auto reading_data(const std::string& spec, Read read) {
  try {
    return read();
  } catch (const OutOfMemory&) {
    throw;
  } catch (const SystemError& error) {
    throw UserError(
        spec, std::string("is damaged (") + error.what() + "). Fetch or make the file again.");
  }
}

// Reads both splits in a child of this process (hdf5_trial.h), once for each spec and `what`: what
// a file is, it stays. `read` is told whether to read everything, or only what HDF5 looks up.
void try_splits_once(const std::string& what, const std::string& spec,
                     const std::function<void(Split, bool whole)>& read);

}  // namespace hetpipe
