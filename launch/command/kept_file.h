// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace hetpipe {

// A measurement cached for later runs: a file FOLDER/SORT/HASH.toml, named by the hash of
// what its numbers depend on. Its first line lists all of that, and has to be the same.
class KeptFile {
 public:
  // What the numbers depend on, as name and value. With an empty folder nothing is cached.
  using Key = std::vector<std::pair<std::string, std::string>>;
  KeptFile(const std::filesystem::path& folder, const std::string& sort, const Key& key);

  // Empty: nothing is cached.
  const std::filesystem::path& path() const { return path_; }

  // The text after the first line; nothing if there is none, or none with this key.
  std::optional<std::string> find() const;
  // A folder that cannot be written is not a failure: returns the reason, or empty.
  std::string keep(const std::string& text) const;

 private:
  std::string first_line_;
  std::filesystem::path path_;
};

}  // namespace hetpipe
