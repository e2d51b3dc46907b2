// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/file_reader.h"

// Private to this folder.
namespace hetpipe {

// Where the images of a shard lie, in their order, and their classes.
struct ShardIndex {
  struct Place {
    std::int64_t offset = 0;   // of the image in the shard
    std::uint32_t length = 0;  // bytes
    std::uint32_t name = 0;    // where its name begins in `names`; it ends where the next begins
  };
  std::vector<Place> images;
  std::vector<std::int32_t> labels;  // by image
  std::string names;                 // of the members, one after another

  void add(std::int64_t offset, std::int64_t length, std::int32_t label, std::string_view name);
  std::string_view name(std::size_t image) const;
};

// Reads the headers of a WebDataset shard, and its classes. Members whose paths are equal up to the
// first dot of the file's name are one sample where they follow one another; what comes after that
// dot is what they are, in any case: jpg, jpeg or png the image, cls its class, a number from 0 in
// text. Other parts are passed over, and so are names without a dot. All that is wrong with the
// samples is added to `problems` (the first ten), with shard and member. UserError where the
// archive itself is damaged.
ShardIndex read_shard(const FileReader& shard, Problems& problems);

// As text that is kept, and back: nothing where it is no such text.
std::string to_text(const ShardIndex& index);
std::optional<ShardIndex> parse_shard_index(std::string_view text);

}  // namespace hetpipe
