// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

// The hetpipe command as people run it: as a process, in a folder.
namespace hetpipe::test {

struct Ran {
  int code = 0;       // 128 + signal where one ended it; -1: it did not end in time
  std::string out;    // standard output
  std::string error;  // standard error
};

struct Limit {
  double seconds = 20;     // on a usual machine (tests/main/patience.h); then it is killed
  std::size_t memory = 0;  // bytes of address space; 0: any
};

// words[0] is a program; all run in `folder`.
Ran run(const std::filesystem::path& folder, const std::vector<std::string>& words,
        const Limit& limit = {});

// Every file and folder below `folder`, with a hash of the content of files.
std::map<std::string, std::size_t> content_of(const std::filesystem::path& folder);

std::vector<std::string> words_of(const std::string& line);  // split at spaces

std::string read(const std::filesystem::path& file);
void write(const std::filesystem::path& file, const std::string& text);

}  // namespace hetpipe::test
