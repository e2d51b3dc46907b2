// SPDX-License-Identifier: Apache-2.0
#include "partitioner/file_kind.h"

#include <algorithm>
#include <array>

namespace hetpipe {
namespace {

struct Sign {
  FileKind kind;
  const char* name;
  std::array<const char*, 2> keys;  // that no other kind of file has
};

constexpr std::array kSigns{Sign{FileKind::cluster, "a cluster file", {"node", "link"}},
                            Sign{FileKind::profile, "a profile", {"layer", "measurement"}},
                            Sign{FileKind::plan, "a plan", {"virtual_worker", "system"}}};

// The first key of a file that shows it to be of a kind.
const TomlEntry* sign_of(const TomlValue& root, const Sign& sign) {
  for (const TomlEntry& entry : root.entries) {
    if (std::find(sign.keys.begin(), sign.keys.end(), entry.key) != sign.keys.end()) return &entry;
  }
  return nullptr;
}

}  // namespace

void check_file_kind(const TomlValue& root, const std::string& file, FileKind wanted) {
  const Sign& own = kSigns[static_cast<std::size_t>(wanted)];
  if (sign_of(root, own) != nullptr) return;
  for (const Sign& other : kSigns) {
    const TomlEntry* entry = sign_of(root, other);
    if (entry == nullptr) continue;
    throw UserError(file + ":" + std::to_string(entry->value.line),
                    "'" + entry->key + "' belongs in " + other.name + " (" + own.name +
                        " is expected here). Were two files mixed up?");
  }
}

}  // namespace hetpipe
