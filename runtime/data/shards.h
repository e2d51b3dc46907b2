// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "runtime/data/image_source.h"

// Images in the tar files of WebDataset, read where they lie.
namespace hetpipe {

bool is_shards(const std::string& spec);  // begins with "shards:"

struct ShardFiles {
  std::vector<std::filesystem::path> train, test;
};
// The files of "shards:PATH" by name. PATH is one of
//   a folder: shards with "train" among the words of their names (which -, _ and . divide) or in
//   train/ are for training; those with "val", "validation" or "test", or in such a folder, for
//   testing; where no name says anything, all are for training;
//   a file X.tar, or a pattern such as "train-{000000..000146}.tar" or "{a,b}.tar", all for
//   training;
//   two of these with a comma between them, the second for testing.
// UserError where there are none, names say only test samples or two kinds of them, some say
// nothing beside others that do, or a shard is compressed.
ShardFiles shard_files(const std::string& spec);

// Their images (shard_index.h says how they are found), shard after shard. What was found in a
// shard is kept in the cache until its size or time changes. UserError with what is wrong with the
// shards, for test samples of classes that training lacks, and for fewer than two classes; and
// when an image is fetched from a shard that has changed since. Classes without training samples
// are remarked on.
ImageSources open_shards(const std::string& spec);

}  // namespace hetpipe
