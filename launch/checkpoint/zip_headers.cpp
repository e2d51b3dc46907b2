// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>

#include "launch/checkpoint/tensor_file.h"

// PKWARE's APPNOTE 6.3.9: local headers, central directory, zip64. Everything is stored, not
// compressed: weights hardly shrink.
namespace hetpipe {
namespace {

constexpr std::uint32_t kMost32 = std::numeric_limits<std::uint32_t>::max();
constexpr std::uint16_t kMost16 = std::numeric_limits<std::uint16_t>::max();
constexpr std::uint16_t kVersion = 45;       // zip64
constexpr std::uint16_t kUtf8 = 1 << 11;     // names are UTF-8
constexpr std::uint16_t kDate = 1 << 5 | 1;  // 1980-01-01: the same tensors, the same file
constexpr std::uint16_t kZip64Extra = 1;
constexpr std::uint16_t kPlainFile = 0;

std::uint32_t or_most(std::uint64_t value) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(value, kMost32));
}

// The extra field that holds those of the values that do not fit 32 bits; empty when all fit.
std::string zip64_extra(std::initializer_list<std::uint64_t> values) {
  std::string large;
  for (const std::uint64_t value : values) {
    if (value >= kMost32) append_number(large, value);
  }
  if (large.empty()) return large;
  std::string extra;
  append_number(extra, kZip64Extra);
  append_number(extra, static_cast<std::uint16_t>(large.size()));
  return extra + large;
}

// From the needed version to the sizes: the same in both kinds of header.
std::string common_fields(std::uint32_t crc32, std::uint64_t bytes) {
  std::string text;
  append_number(text, kVersion);
  append_number(text, kUtf8);
  append_number(text, std::uint16_t{0});  // stored
  append_number(text, std::uint16_t{0});  // midnight
  append_number(text, kDate);
  append_number(text, crc32);
  append_number(text, or_most(bytes));  // compressed
  append_number(text, or_most(bytes));
  return text;
}

}  // namespace

std::string ZipHeaders::member(const std::string& name, std::uint32_t crc32, std::uint64_t bytes) {
  const auto name_bytes = static_cast<std::uint16_t>(name.size());
  const std::string local_extra = zip64_extra({bytes, bytes});
  std::string local = "PK\x03\x04" + common_fields(crc32, bytes);
  append_number(local, name_bytes);
  append_number(local, static_cast<std::uint16_t>(local_extra.size()));
  local += name + local_extra;

  const std::string extra = zip64_extra({bytes, bytes, offset_});
  directory_ += "PK\x01\x02";
  append_number(directory_, kVersion);
  directory_ += common_fields(crc32, bytes);
  append_number(directory_, name_bytes);
  append_number(directory_, static_cast<std::uint16_t>(extra.size()));
  append_number(directory_, std::uint16_t{0});  // comment
  append_number(directory_, std::uint16_t{0});  // disk
  append_number(directory_, kPlainFile);        // internal attributes
  append_number(directory_, std::uint32_t{0});  // external attributes
  append_number(directory_, or_most(offset_));
  directory_ += name + extra;

  offset_ += local.size() + bytes;
  ++members_;
  return local;
}

std::string ZipHeaders::end() const {
  std::string text = directory_;
  const bool large = members_ >= kMost16 || offset_ >= kMost32 || directory_.size() >= kMost32;
  if (large) {
    text += "PK\x06\x06";
    append_number(text, std::uint64_t{44});  // bytes of this record after this field
    append_number(text, kVersion);
    append_number(text, kVersion);
    append_number(text, std::uint32_t{0});
    append_number(text, std::uint32_t{0});
    append_number(text, members_);
    append_number(text, members_);
    append_number(text, std::uint64_t{directory_.size()});
    append_number(text, offset_);
    text += "PK\x06\x07";  // where that record is
    append_number(text, std::uint32_t{0});
    append_number(text, std::uint64_t{offset_ + directory_.size()});
    append_number(text, std::uint32_t{1});
  }
  const auto members = static_cast<std::uint16_t>(std::min<std::uint64_t>(members_, kMost16));
  text += "PK\x05\x06";
  append_number(text, std::uint16_t{0});
  append_number(text, std::uint16_t{0});
  append_number(text, members);
  append_number(text, members);
  append_number(text, or_most(directory_.size()));
  append_number(text, or_most(offset_));
  append_number(text, std::uint16_t{0});
  return text;
}

}  // namespace hetpipe
