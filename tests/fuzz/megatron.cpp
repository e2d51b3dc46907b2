// SPDX-License-Identifier: Apache-2.0
#include "runtime/data/megatron_index.h"
#include "tests/fuzz/fuzz.h"

// Two bytes: the size of the file of tokens. The others: its index.
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using hetpipe::fuzz::require;
  static hetpipe::fuzz::MemoryFile index, tokens;
  if (size < 2) return 0;
  const std::size_t bytes = std::size_t{data[0]} << 8 | data[1];
  index.set({reinterpret_cast<const char*>(data) + 2, size - 2});
  tokens.set(std::string(bytes, 'x'));
  try {
    const hetpipe::FileReader file(tokens.path());
    const hetpipe::MegatronTokens found = hetpipe::read_megatron_index(index.path(), file);
    require(found.count >= 0 &&
                static_cast<std::size_t>(found.count) * hetpipe::bytes_of(found.type) == bytes,
            "tokens and their file disagree");
  } catch (const hetpipe::UserError&) {
  }
  return 0;
}
