// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

// What was measured once, kept for later runs.
namespace hetpipe {

// Where measurements are cached for later runs of this user on this machine: $HETPIPE_CACHE,
// or hetpipe/ in $XDG_CACHE_HOME or ~/.cache. Created if missing. Empty if there is no
// such place, or it cannot be written: then nothing is cached.
std::filesystem::path cache_folder();

// The file there that caches execution plans of GPUs; empty: nothing is cached.
std::string plan_cache();

// A file FOLDER/SORT/HASH.toml, named by the hash of
// what its numbers depend on. Its first line says all of that, and has to be the same.
class KeptFile {
 public:
  // What numbers depend on, as name and value. An empty folder keeps nothing.
  using Key = std::vector<std::pair<std::string, std::string>>;
  KeptFile(const std::filesystem::path& folder, const std::string& sort, const Key& key);

  // Empty: nothing is kept.
  const std::filesystem::path& path() const { return path_; }

  // The text behind the first line; nothing where there is none, or none of this key.
  std::optional<std::string> find() const;
  // A folder that cannot be written is no reason to fail: what was the matter, or empty.
  std::string keep(const std::string& text) const;

 private:
  std::string first_line_;
  std::filesystem::path path_;
};

}  // namespace hetpipe
