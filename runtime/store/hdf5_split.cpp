// SPDX-License-Identifier: Apache-2.0
#include "runtime/store/hdf5_split.h"

#include <filesystem>
#include <set>
#include <vector>

#include "base/text.h"
#include "runtime/store/hdf5_trial.h"

namespace hetpipe {

hdf5::Id open_data_file(const std::string& path) {
  if (!std::filesystem::is_regular_file(path)) {
    throw UserError(path, "does not exist or is not a file. Give the path of an HDF5 file.");
  }
  try {
    return hdf5::open_to_read(path);
  } catch (const SystemError& error) {
    throw UserError(path, std::string("cannot be opened as an HDF5 file (") + error.what() +
                              "). Give an HDF5 file, or fetch it again.");
  }
}

SplitPlace find_split(const std::string& spec, Split wanted) {
  const std::vector<std::string> files = split(spec, ',');
  if (files.size() == 2) return {files[wanted == Split::train ? 0 : 1], ""};
  if (files.size() > 2) {
    throw UserError(spec, format("names %zu files (one, or one for train and one for test). "
                                 "Give TRAIN.h5,TEST.h5.",
                                 files.size()));
  }
  const hdf5::Id file = open_data_file(spec);
  const bool grouped = hdf5::has_link(file.get(), "train") || hdf5::has_link(file.get(), "test");
  if (!grouped && wanted == Split::train) return {spec, ""};
  const std::string group = std::string("/") + split_name(wanted);
  if (!hdf5::has_link(file.get(), group)) {
    throw UserError(spec, "holds no group " + group + " (the " + split_name(wanted) +
                              " samples are looked for there). Add it, or give two files as "
                              "TRAIN.h5,TEST.h5.");
  }
  return {spec, group};
}

namespace {

// Beyond it only what HDF5 looks up is tried: names, shapes, labels, where each chunk lies.
constexpr std::uintmax_t kTriedWhole = 256'000'000;  // bytes
constexpr double kLeastSeconds = 30;
constexpr double kSlowestRead = 10e6;  // bytes/s

}  // namespace

void try_splits_once(const std::string& what, const std::string& spec,
                     const std::function<void(Split, bool whole)>& read) {
  static std::set<std::string> tried;  // by whoever holds the store's lock
  if (tried.contains(what + spec)) return;
  std::uintmax_t bytes = 0;
  for (const std::string& file : split(spec, ',')) {
    std::error_code error;
    if (!std::filesystem::is_regular_file(file, error)) return;  // which open_data_file() says
    bytes += std::filesystem::file_size(file, error);
  }
  const double seconds = kLeastSeconds + static_cast<double>(bytes) / kSlowestRead;
  for (const Split split : {Split::train, Split::test}) {
    try_in_a_child(spec, seconds, [&] { read(split, bytes <= kTriedWhole); });
  }
  tried.insert(what + spec);
}

}  // namespace hetpipe
