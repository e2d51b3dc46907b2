// SPDX-License-Identifier: Apache-2.0
#include "runtime/store/class_names.h"

#include "runtime/data/dataset.h"
#include "runtime/store/hdf5.h"
#include "runtime/store/hdf5_split.h"
#include "runtime/store/open_dataset.h"

namespace hetpipe {
namespace {

constexpr const char* kClassNames = "class_names";

std::vector<std::string> read_names(const std::string& path) {
  const hdf5::Id file = open_data_file(path);
  if (!hdf5::has_link(file.get(), kClassNames)) return {};
  const hdf5::Doing doing{path, "reading class_names"};
  const hdf5::Id dataset = hdf5::own(H5Dopen2(file.get(), kClassNames, H5P_DEFAULT), doing);
  const hdf5::Id type = hdf5::own(H5Dget_type(dataset.get()), doing);
  const std::vector<hsize_t> shape = hdf5::shape_of(dataset.get(), doing);
  const bool fixed = H5Tget_class(type.get()) == H5T_STRING &&
                     hdf5::check(H5Tis_variable_str(type.get()), doing) == 0;
  const std::size_t length = H5Tget_size(type.get());
  if (!fixed || shape.size() != 1 || length == 0 || shape[0] > (1U << 20) || length > 4096) {
    return {};  // somebody else's, of another form
  }
  std::string text(shape[0] * length, '\0');
  hdf5::check(H5Dread(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, text.data()),
              doing);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < shape[0]; ++i) {
    const std::string padded = text.substr(i * length, length);
    names.push_back(padded.substr(0, padded.find('\0')));
  }
  return names;
}

}  // namespace

std::vector<std::string> class_names_of(const std::string& spec) {
  if (!is_hdf5(spec)) return {};
  const hdf5::Session session;
  return reading_data(spec, [&] { return read_names(find_split(spec, Split::train).path); });
}

}  // namespace hetpipe
