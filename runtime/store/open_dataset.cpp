// SPDX-License-Identifier: Apache-2.0
#include "runtime/store/open_dataset.h"

#include "runtime/data/idx.h"
#include "runtime/data/image_source.h"
#include "runtime/data/shards.h"
#include "runtime/data/text.h"
#include "runtime/data/token_files.h"
#include "runtime/store/hdf5_dataset.h"
#include "runtime/store/named_dataset.h"

namespace hetpipe {

bool is_hdf5(const std::string& spec) { return spec.ends_with(".h5") || spec.ends_with(".hdf5"); }

bool has_test_split(const std::string& spec) {
  if (is_shards(spec)) return !shard_files(spec).test.empty();
  if (is_image_folder(spec)) return !test_folder(spec).empty();
  return is_text(spec) || is_token_files(spec) || !is_hdf5(spec) || has_hdf5_test_split(spec);
}

Dataset open_dataset(const std::string& spec, Split split, Parts parts, TextTask task) {
  if (is_text(spec)) return load_text_dataset(spec, split, parts, task);
  if (is_token_files(spec)) return open_token_files(spec, split, parts, task);
  return is_hdf5(spec) ? load_hdf5_dataset(spec, split, parts) : load_dataset(spec, split, parts);
}

Dataset open_dataset(const std::string& spec, Split split, Parts parts,
                     const SampleFormat& format) {
  if (is_hdf5(spec)) return load_named_dataset(spec, split, parts, format);
  return open_dataset(spec, split, parts);
}

}  // namespace hetpipe
