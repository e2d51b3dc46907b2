// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "runtime/store/checkpoint.h"
#include "runtime/store/checkpoint_seal.h"

namespace hetpipe {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kStart = "checkpoint-";
constexpr std::string_view kEnd = ".h5";

// The label in a file's name; nothing when it is no checkpoint's name.
std::optional<Label> label_of(const std::string& name) {
  if (!name.starts_with(kStart) || !name.ends_with(kEnd)) return std::nullopt;
  const std::string digits = name.substr(kStart.size(), name.size() - kStart.size() - kEnd.size());
  const bool numeric =
      std::all_of(digits.begin(), digits.end(), [](char c) { return '0' <= c && c <= '9'; });
  if (!numeric || digits.size() < 8 || digits.size() > 18) return std::nullopt;
  return std::stoll(digits);
}

bool is_leftover(const std::string& name) {
  return name.starts_with(kStart) && name.find(".h5.tmp.") != std::string::npos;
}

// Never by HDF5: whatever is wrong with a file, it must not take the process with it.
bool is_complete(const fs::path& path) {
  try {
    checkpoint_seal::SealedFile file(path);
    return true;
  } catch (const UserError&) {
    return false;
  } catch (const SystemError&) {
    return false;  // it cannot be resumed from
  }
}

struct Found {
  Label label;
  fs::path path;
};

struct Listing {
  std::vector<Found> checkpoints;  // newest first
  std::vector<fs::path> leftovers;
};

Listing list(const fs::path& folder) {
  Listing listing;
  std::error_code code;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, code)) {
    const std::string name = entry.path().filename().string();
    if (const std::optional<Label> label = label_of(name)) {
      listing.checkpoints.push_back({*label, entry.path()});
    } else if (is_leftover(name)) {
      listing.leftovers.push_back(entry.path());
    }
  }
  std::sort(listing.checkpoints.begin(), listing.checkpoints.end(),
            [](const Found& a, const Found& b) { return a.label > b.label; });
  return listing;
}

void remove_file(const fs::path& path) {
  std::error_code code;
  fs::remove(path, code);
  if (code) throw SystemError("cannot remove " + path.string() + ": " + code.message());
}

}  // namespace

std::string checkpoint_name(Label label) {
  return format("checkpoint-%08lld.h5", static_cast<long long>(label));
}

std::optional<fs::path> newest_checkpoint(const fs::path& folder) {
  for (const Found& found : list(folder).checkpoints) {
    if (is_complete(found.path)) return found.path;
  }
  return std::nullopt;
}

std::vector<fs::path> list_checkpoints(const fs::path& folder) {
  std::vector<fs::path> paths;
  for (const Found& found : list(folder).checkpoints) paths.push_back(found.path);
  return paths;
}

void prune_checkpoints(const fs::path& folder, int keep) {
  ensure(keep >= 1, "prune_checkpoints: at least one is kept");
  const Listing listing = list(folder);
  int complete = 0;
  for (const Found& found : listing.checkpoints) {
    if (is_complete(found.path) && ++complete > keep) remove_file(found.path);
  }
  for (const fs::path& leftover : listing.leftovers) remove_file(leftover);
}

}  // namespace hetpipe
