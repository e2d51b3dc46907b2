// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/file_reader.h"

// Private to this folder.
namespace hetpipe {

enum class TarKind { file, folder, link, other };

struct TarMember {
  std::string name;
  TarKind kind = TarKind::file;
  std::int64_t offset = 0;  // of its content in the archive
  std::int64_t size = 0;    // bytes
};

// The members of a tar archive in their order, from the headers alone: POSIX.1-1988 (ustar),
// POSIX.1-2001 (pax: the records path and size) and GNU tar (long names, sizes of 8 GiB and more).
class TarReader {
 public:
  explicit TarReader(const FileReader& file) : file_(file) {}
  // Nothing: the archive has ended. UserError naming the file and the byte where a header is
  // damaged, where the archive is cut short, and where something follows its end.
  std::optional<TarMember> next();

 private:
  struct Extended;  // what headers before a member's own say of it
  std::string content(const TarMember& of) const;
  void check_rest() const;
  [[noreturn]] void refuse(const std::string& what) const;

  const FileReader& file_;
  std::int64_t at_ = 0;
};

}  // namespace hetpipe
