// SPDX-License-Identifier: Apache-2.0
#include "runtime/store/class_names.h"

#include "runtime/data/dataset.h"
#include "runtime/store/hdf5_split.h"
#include "runtime/store/name_list.h"
#include "runtime/store/open_dataset.h"

namespace hetpipe {

std::vector<std::string> class_names_of(const std::string& spec) {
  if (!is_hdf5(spec)) return {};
  const hdf5::Session session;
  return reading_data(spec, [&] {
    const std::string path = find_split(spec, Split::train).path;
    return hdf5::read_name_list(open_data_file(path).get(), hdf5::kClassNames,
                                {path, "reading class_names"});
  });
}

}  // namespace hetpipe
