// SPDX-License-Identifier: Apache-2.0
#include "runtime/store/open_dataset.h"

#include "runtime/data/idx.h"
#include "runtime/store/hdf5_dataset.h"

namespace hetpipe {

Dataset open_dataset(const std::string& spec, Split split, Parts parts) {
  const bool hdf5 = spec.ends_with(".h5") || spec.ends_with(".hdf5");
  return hdf5 ? load_hdf5_dataset(spec, split, parts) : load_dataset(spec, split, parts);
}

}  // namespace hetpipe
