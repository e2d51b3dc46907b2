// SPDX-License-Identifier: Apache-2.0
#include "runtime/data/shard_index.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/data/made_tar.h"

namespace hetpipe::fuzz {
namespace {

void check_places(const ShardIndex& index, std::int64_t size) {
  require(index.images.size() == index.labels.size(), "images and labels disagree");
  for (std::size_t i = 0; i < index.images.size(); ++i) {
    const ShardIndex::Place& image = index.images[i];
    require(image.offset >= 512 && image.offset + image.length <= size, "an image lies outside");
    require(index.labels[i] >= 0, "a class is below 0");
    require(!index.name(i).empty(), "a sample has no name");
  }
}

void read(const std::string& bytes) {
  static MemoryFile memory;
  memory.set(bytes);
  try {
    const FileReader file(memory.path());
    Problems problems;
    const ShardIndex index = read_shard(file, problems);
    check_places(index, file.size());
    require(!index.images.empty() || !problems.empty(), "nothing was found, and nothing is wrong");
    const auto again = parse_shard_index(to_text(index));
    require(again && again->names == index.names && again->labels == index.labels &&
                to_text(*again) == to_text(index),
            "what was kept is read differently");
  } catch (const UserError&) {
  }
}

}  // namespace
}  // namespace hetpipe::fuzz

// Tar archives, as they are and with the checksums of their headers right; and the text that is
// kept of one.
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  hetpipe::fuzz::read(bytes);
  hetpipe::fuzz::read(hetpipe::with_tar_checksums(bytes));
  if (const auto index = hetpipe::parse_shard_index(bytes)) {
    hetpipe::fuzz::require(index->images.size() == index->labels.size(), "a part is missing");
  }
  return 0;
}
