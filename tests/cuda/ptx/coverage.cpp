// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <exception>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include "base/error.h"
#include "tests/cuda/ptx/kernels.h"

// ptx_coverage FOLDER SEEN...: which entries of the PTX files of FOLDER ran, as the files SEEN note
// it (HETPIPE_PTX_SEEN). Exit code 1, and the names, where one never did, or at a single size.
namespace hetpipe::cuda::ptx {
namespace {

using Sizes = std::map<std::string, std::set<std::string>>;  // by FILE ENTRY

void read_seen(const std::string& path, Sizes& sizes) {
  std::ifstream file(path);
  if (!file) throw UserError(path, "no such file (what ran is read from it). Run the tests first.");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string module, entry, size;
    words >> module >> entry >> size;
    const auto at = sizes.find(module + " " + entry);
    if (at == sizes.end()) {
      throw UserError(path, "'" + module + " " + entry +
                                "' is no entry (it ran from other PTX). Run the tests again.");
    }
    at->second.insert(size);
  }
}

int report(int count, char** arguments) {
  Sizes sizes;
  for (const auto& module : read_modules(arguments[1])) {
    for (const Entry& entry : module->entries) sizes[module->name + " " + std::string(entry.name)];
  }
  for (int i = 2; i < count; ++i) read_seen(arguments[i], sizes);
  std::size_t ran = 0, at_one_size = 0;
  for (const auto& [entry, seen] : sizes) {
    if (seen.empty()) std::printf("never ran: %s\n", entry.c_str());
    ran += seen.empty() ? 0 : 1;
    if (seen.size() != 1) continue;
    std::printf("at one size alone: %s (%s)\n", entry.c_str(), seen.begin()->c_str());
    ++at_one_size;
  }
  std::printf("%zu of %zu entries ran, %zu of them at one size alone\n", ran, sizes.size(),
              at_one_size);
  return ran == sizes.size() && at_one_size == 0 ? 0 : 1;
}

}  // namespace
}  // namespace hetpipe::cuda::ptx

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: ptx_coverage FOLDER SEEN...\n");
    return 2;
  }
  try {
    return hetpipe::cuda::ptx::report(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 2;
  }
}
