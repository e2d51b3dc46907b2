// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "base/error.h"
#include "base/text.h"
#include "runtime/data/shards.h"

namespace hetpipe {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "shards:";
constexpr std::size_t kMostShards = 1'000'000;

[[noreturn]] void refuse(const std::string& spec, const std::string& what) {
  throw UserError("--data " + spec, what);
}

bool is_shard_name(const fs::path& path) { return path.extension() == ".tar"; }

// A tar file is read in any place; what is compressed only from its beginning.
bool is_compressed_name(const std::string& name) {
  for (const char* ending : {".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst", ".tar.lz4"}) {
    if (name.ends_with(ending)) return true;
  }
  return false;
}

[[noreturn]] void refuse_compressed(const fs::path& path) {
  throw UserError(path.string(),
                  "is compressed (samples are read from any place of a shard; images hardly shrink "
                  "anyway). Unpack it, as in gunzip " +
                      path.filename().string() + ".");
}

// "000..146": numbers, with as many digits as the longer one where one begins with 0.
std::optional<std::vector<std::string>> numbers(std::string_view text) {
  const std::size_t dots = text.find("..");
  if (dots == std::string_view::npos) return std::nullopt;
  const std::string_view ends[] = {text.substr(0, dots), text.substr(dots + 2)};
  std::size_t from_to[2];
  std::size_t width = 0;
  for (int i = 0; i < 2; ++i) {
    const char* const end = ends[i].data() + ends[i].size();
    const auto [stop, error] = std::from_chars(ends[i].data(), end, from_to[i]);
    if (error != std::errc() || stop != end) return std::nullopt;
    if (ends[i].size() > 1 && ends[i].front() == '0') {
      width = std::max(ends[0].size(), ends[1].size());
    }
  }
  const auto [from, to] = from_to;
  if (from > to || to - from >= kMostShards) return std::nullopt;
  std::vector<std::string> all;
  for (std::size_t value = from; value <= to; ++value) {
    std::string digits = std::to_string(value);
    digits.insert(0, width - std::min(width, digits.size()), '0');
    all.push_back(std::move(digits));
  }
  return all;
}

// As a shell expands {A..B} and {X,Y}, from left to right.
std::vector<std::string> expanded(const std::string& pattern, const std::string& spec) {
  std::vector<std::string> all{""};
  for (std::size_t place = 0; place < pattern.size();) {
    const std::size_t open = std::min(pattern.find('{', place), pattern.size());
    const std::size_t close = pattern.find('}', open);
    for (std::string& one : all) one += pattern.substr(place, open - place);
    if (open == pattern.size()) break;
    const std::string inside =
        close == std::string::npos ? "" : pattern.substr(open + 1, close - open - 1);
    auto choices = numbers(inside);
    if (!choices && inside.find(',') != std::string::npos) choices = split(inside, ',');
    if (!choices || inside.find('{') != std::string::npos ||
        choices->size() * all.size() > kMostShards) {
      refuse(spec,
             format("'%s' is no pattern of names ({FIRST..LAST} with numbers and {A,B} are, of "
                    "at most %zu shards). Correct it, as in "
                    "shards:FOLDER/train-{000000..000146}.tar.",
                    pattern.c_str(), kMostShards));
    }
    std::vector<std::string> longer;
    for (const std::string& one : all) {
      for (const std::string& choice : *choices) longer.push_back(one + choice);
    }
    all = std::move(longer);
    place = close + 1;
  }
  return all;
}

// "{a,b}.tar,c.tar": "{a,b}.tar" and "c.tar".
std::vector<std::string> split_outside_braces(const std::string& text) {
  std::vector<std::string> parts{""};
  bool inside = false;
  for (const char c : text) {
    inside = c == '{' || (inside && c != '}');
    if (c == ',' && !inside) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

std::vector<fs::path> matching(const std::string& pattern, const std::string& spec) {
  std::vector<fs::path> shards;
  for (const std::string& name : expanded(pattern, spec)) {
    if (is_compressed_name(name)) refuse_compressed(name);
    if (!is_shard_name(name)) {
      refuse(spec, "'" + name + "' is neither a folder nor a shard, X.tar. Correct the path.");
    }
    shards.emplace_back(name);
  }
  return shards;
}

// Of a folder, and whether it is one.
std::vector<fs::path> shards_in(const fs::path& folder) {
  std::vector<fs::path> shards;
  std::error_code error;
  for (fs::directory_iterator place(folder, error); !error && place != fs::directory_iterator();
       place.increment(error)) {
    const std::string name = place->path().filename().string();
    if (name.starts_with('.')) continue;
    if (is_compressed_name(name)) refuse_compressed(place->path());
    if (is_shard_name(place->path())) shards.push_back(place->path());
  }
  if (error) {
    throw UserError(folder.string(), "cannot be listed (" + error.message() +
                                         "). Check the path and its permissions.");
  }
  std::sort(shards.begin(), shards.end());
  return shards;
}

constexpr std::array<const char*, 4> kSplits{"train", "val", "validation", "test"};

// The split that a name says; empty: none.
std::string split_in(const std::string& name) {
  std::string words = name;
  std::replace_if(
      words.begin(), words.end(), [](char c) { return c == '_' || c == '.'; }, '-');
  for (const std::string& word : split(words, '-')) {
    if (std::find(kSplits.begin(), kSplits.end(), word) != kSplits.end()) return word;
  }
  return {};
}

ShardFiles files_in(const fs::path& folder, const std::string& spec) {
  std::map<std::string, std::vector<fs::path>> by_split;
  for (const fs::path& shard : shards_in(folder)) {
    by_split[split_in(shard.filename().string())].push_back(shard);
  }
  for (const char* name : kSplits) {
    std::error_code error;
    if (!fs::is_directory(folder / name, error)) continue;
    for (const fs::path& shard : shards_in(folder / name)) by_split[name].push_back(shard);
  }
  if (by_split.empty()) refuse(spec, "holds no shards (files X.tar). Give another folder.");
  if (by_split.size() == 1 && by_split.contains("")) return {by_split[""], {}};
  if (by_split.contains("")) {
    throw UserError(by_split[""].front().string(),
                    "has a name without train, val or test (names of others here have one). "
                    "Rename or remove it.");
  }
  if (!by_split.contains("train")) {
    refuse(spec,
           "holds test samples alone (no shard has train in its name, as train-000000.tar "
           "has). Rename or add some.");
  }
  if (by_split.size() > 2) {
    refuse(spec,
           "holds several kinds of test samples (val, validation and test in the names of "
           "shards are each one). Keep one of them.");
  }
  ShardFiles files{by_split["train"], {}};
  for (auto& [name, shards] : by_split) {
    if (name != "train") files.test = std::move(shards);
  }
  return files;
}

}  // namespace

bool is_shards(const std::string& spec) { return spec.starts_with(kPrefix); }

ShardFiles shard_files(const std::string& spec) {
  const std::string path = spec.substr(kPrefix.size());
  if (path.empty()) {
    refuse(spec,
           "names no shards. Give a folder or a pattern, as in shards:FOLDER or "
           "shards:FOLDER/train-{000000..000146}.tar.");
  }
  std::error_code error;
  if (fs::is_directory(path, error)) return files_in(path, spec);
  const std::vector<std::string> patterns = split_outside_braces(path);
  if (patterns.size() > 2) {
    refuse(spec, format("has %zu patterns (one is of training samples, and a second one of test "
                        "samples). Give shards:TRAIN.tar or shards:TRAIN.tar,TEST.tar.",
                        patterns.size()));
  }
  ShardFiles files{matching(patterns.front(), spec), {}};
  if (patterns.size() == 2) files.test = matching(patterns.back(), spec);
  return files;
}

}  // namespace hetpipe
