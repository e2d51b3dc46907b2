// SPDX-License-Identifier: Apache-2.0
#include "runtime/data/tar.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <span>
#include <string_view>

#include "base/error.h"
#include "base/index.h"
#include "base/text.h"

namespace hetpipe {
namespace {

constexpr std::int64_t kBlock = 512;
constexpr std::int64_t kLongestExtension = 1 << 20;  // bytes of a long name or of pax records

using Header = std::array<char, kBlock>;

// Places in a header: POSIX.1-1988, section 10.1.1.
std::string_view field(const Header& header, std::size_t first, std::size_t length) {
  return std::string_view(header.data(), header.size()).substr(first, length);
}
std::string_view up_to_zero(std::string_view text) { return text.substr(0, text.find('\0')); }

// Octal digits between spaces or, as GNU tar writes what needs more of them, a number whose first
// bit is set and whose bytes follow.
std::optional<std::int64_t> number(std::string_view text) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  std::int64_t value = 0;
  if ((text.front() & '\x80') != 0) {
    if (text.front() != '\x80') return std::nullopt;  // negative, or far too large
    for (const char c : text.substr(1)) {
      if (value > kMost >> 8) return std::nullopt;
      value = value << 8 | static_cast<unsigned char>(c);
    }
    return value;
  }
  text = up_to_zero(text);
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  for (const char c : text) {
    if (c < '0' || c > '7' || value > kMost >> 3) return std::nullopt;
    value = value << 3 | (c - '0');
  }
  return value;
}

// The sum of all bytes, those of its own field taken as spaces; some programs add signed bytes.
bool checksum_fits(const Header& header) {
  constexpr std::size_t kPlace = 148, kLength = 8;
  std::int64_t plain = 0, with_signs = 0;
  for (std::size_t i = 0; i < header.size(); ++i) {
    const char c = i >= kPlace && i < kPlace + kLength ? ' ' : header[i];
    plain += static_cast<unsigned char>(c);
    with_signs += static_cast<signed char>(c);
  }
  const auto written = number(field(header, kPlace, kLength));
  return written == plain || written == with_signs;
}

std::string name_in(const Header& header) {
  std::string name(up_to_zero(field(header, 0, 100)));
  constexpr std::string_view kPosix("ustar\0", 6);  // GNU tar has other things at 345
  const std::string_view prefix = up_to_zero(field(header, 345, 155));
  if (field(header, 257, 6) == kPosix && !prefix.empty()) name = std::string(prefix) + '/' + name;
  return name;
}

TarKind kind_of(char type) {
  switch (type) {
    case '0':
    case '\0':
    case '7':
      return TarKind::file;
    case '1':
    case '2':
      return TarKind::link;
    case '5':
      return TarKind::folder;
    default:
      return TarKind::other;
  }
}

}  // namespace

struct TarReader::Extended {
  std::string name;
  std::optional<std::int64_t> size;
  bool sparse = false;

  bool empty() const { return name.empty() && !size && !sparse; }
  // Records "LENGTH KEY=VALUE\n"; false where they are none.
  bool read_pax(std::string_view text) {
    while (!text.empty()) {
      std::size_t length = 0;
      const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), length);
      const auto digits = static_cast<std::size_t>(stop - text.data());
      if (error != std::errc() || length > text.size() || length < digits + 2 ||
          text[digits] != ' ' || text[length - 1] != '\n') {
        return false;
      }
      const std::string_view record = text.substr(digits + 1, length - digits - 2);
      const std::size_t is = record.find('=');
      if (is == std::string_view::npos) return false;
      const std::string_view key = record.substr(0, is), value = record.substr(is + 1);
      if (key == "path") name = up_to_zero(value);
      if (key.starts_with("GNU.sparse.")) sparse = true;
      if (key == "size") {
        std::int64_t bytes = 0;
        const auto [end, wrong] = std::from_chars(value.data(), value.data() + value.size(), bytes);
        if (wrong != std::errc() || end != value.data() + value.size() || bytes < 0) return false;
        size = bytes;
      }
      text.remove_prefix(length);
    }
    return true;
  }
};

void TarReader::refuse(const std::string& what) const {
  throw UserError(file_.path().string(), what + " Fetch or make the shard again.");
}

std::string TarReader::content(const TarMember& of) const {
  if (of.size > kLongestExtension) {
    refuse(format("has a name or records of %lld bytes at byte %lld (at most %lld are read).",
                  static_cast<long long>(of.size), static_cast<long long>(of.offset),
                  static_cast<long long>(kLongestExtension)));
  }
  std::string text(at(of.size), '\0');
  file_.read(of.offset, std::as_writable_bytes(std::span(text)));
  return text;
}

// Nothing but padding may follow the end: archives that were joined would lose all but the first.
void TarReader::check_rest() const {
  std::array<char, 1 << 16> some;
  for (std::int64_t from = at_; from < file_.size();) {
    const std::size_t count = std::min(some.size(), at(file_.size() - from));
    const std::span<char> read(some.data(), count);
    file_.read(from, std::as_writable_bytes(read));
    const auto found = std::find_if(read.begin(), read.end(), [](char c) { return c != '\0'; });
    from += static_cast<std::int64_t>(count);
    if (found == read.end()) continue;
    refuse(
        format("goes on after the end of its archive at byte %lld (archives were joined, or it "
               "is damaged). Join archives with tar --concatenate.",
               static_cast<long long>(at_)));
  }
}

std::optional<TarMember> TarReader::next() {
  Extended extended;
  for (;;) {
    const auto place = static_cast<long long>(at_);
    if (file_.size() == 0) refuse("is empty.");
    if (at_ > file_.size() - kBlock) {
      refuse(format("ends at byte %lld without the mark of an archive's end (it is cut short).",
                    static_cast<long long>(file_.size())));
    }
    Header header;
    file_.read(at_, std::as_writable_bytes(std::span(header)));
    if (std::all_of(header.begin(), header.end(), [](char c) { return c == '\0'; })) {
      if (!extended.empty()) refuse(format("lacks the member of the header at byte %lld.", place));
      check_rest();
      return std::nullopt;
    }
    if (!checksum_fits(header)) {
      refuse(
          format("has no header of a member at byte %lld (it is no tar archive, is compressed, "
                 "or is damaged).",
                 place));
    }
    const char type = header[156];
    TarMember member{name_in(header), kind_of(type), at_ + kBlock, 0};
    const bool of_next = type == 'x' || type == 'L';
    const bool extends = of_next || type == 'g' || type == 'K';
    if (!extends && !extended.name.empty()) member.name = extended.name;
    auto size = number(field(header, 124, 12));
    if (!extends && extended.size) size = extended.size;
    if (member.kind == TarKind::link) size = 0;  // of what it leads to, in some archives
    if (!size || *size > file_.size() - member.offset) {
      refuse(
          format("ends inside of '%s' (its header at byte %lld says %lld bytes, and %lld are "
                 "left).",
                 member.name.c_str(), place, static_cast<long long>(size.value_or(-1)),
                 static_cast<long long>(file_.size() - member.offset)));
    }
    member.size = *size;
    at_ = member.offset + (member.size + kBlock - 1) / kBlock * kBlock;
    if (type == 'L') extended.name = up_to_zero(content(member));
    if (type == 'x' && !extended.read_pax(content(member))) {
      refuse(format("has damaged pax records at byte %lld.", place));
    }
    if (extends) continue;
    if (extended.sparse) member.kind = TarKind::other;
    return member;
  }
}

}  // namespace hetpipe
