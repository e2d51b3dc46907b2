// SPDX-License-Identifier: Apache-2.0
#include "partitioner/profile/graph_txt.h"

#include "tests/fuzz/fuzz.h"

// What is read from graph.txt has to be a profile that the project's own file can hold.
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  hetpipe::looks_like_graph_txt(text);
  hetpipe::Profile read;
  try {
    read = hetpipe::parse_graph_txt(text, "graph.txt", {"v100", 32}).profile;
  } catch (const hetpipe::UserError&) {
    return 0;
  }
  try {
    hetpipe::fuzz::require(hetpipe::parse_profile(hetpipe::to_toml(read), "again") == read,
                           "what was written is read differently");
  } catch (const hetpipe::UserError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    hetpipe::fuzz::require(false, "what was written is refused");
  }
  return 0;
}
