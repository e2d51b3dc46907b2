// SPDX-License-Identifier: Apache-2.0
#include "runtime/store/checkpoint_seal.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>

#include "base/file_descriptor.h"
#include "base/text.h"
#include "runtime/store/checkpoint_format.h"
#include "runtime/store/checksum.h"

namespace hetpipe::checkpoint_seal {
namespace {

using checkpoint_format::kRemedy;

constexpr std::string_view kMagic = "hetpipe-checkpoint ";
constexpr std::string_view kSealWord = "hetpipe-seal ";
constexpr std::string_view kHdf5Magic = "\x89HDF\r\n\x1a\n";
constexpr std::size_t kChecksumDigits = 8;
constexpr std::size_t kSealBytes = kSealWord.size() + kChecksumDigits + 1;
// Far more than a million tensors need; a table is held in memory as a whole.
constexpr std::uint64_t kMostTableBytes = 1 << 28;
constexpr std::size_t kPieceBytes = 1 << 20;

std::string seal_line(std::string_view lines) {
  return std::string(kSealWord) + checksum_text(crc32_of(lines)) + "\n";
}

std::string header_of(std::uint64_t table, std::uint64_t bytes) {
  std::string text =
      std::string(kMagic) + std::to_string(checkpoint_format::kVersion) + "\n" +
      format("bytes %020llu\ntable %020llu\n", static_cast<unsigned long long>(bytes),
             static_cast<unsigned long long>(table)) +
      "HDF5 with a user block of 512 bytes: h5py opens it as it is.\n";
  text.resize(kHeaderBytes - kChecksumDigits - 1, ' ');
  return text + checksum_text(crc32_of(text)) + "\n";
}

template <class Number>
std::optional<Number> number(std::string_view text, int base = 10) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// The word after `label` on its line, as a number.
std::optional<std::uint64_t> labelled(const std::string& header, const std::string& label) {
  const std::size_t start = header.find("\n" + label + " ");
  if (start == std::string::npos) return std::nullopt;
  const std::size_t first = start + label.size() + 2;
  return number<std::uint64_t>(
      std::string_view(header).substr(first, header.find('\n', first) - first));
}

// "offset bytes checksum path", without the newline.
std::optional<Region> region_of(std::string_view line) {
  std::string_view words[3];
  for (std::string_view& word : words) {
    const std::size_t space = line.find(' ');
    if (space == std::string_view::npos) return std::nullopt;
    word = line.substr(0, space);
    line.remove_prefix(space + 1);
  }
  const auto offset = number<std::uint64_t>(words[0]);
  const auto bytes = number<std::uint64_t>(words[1]);
  const auto checksum = number<std::uint32_t>(words[2], 16);
  if (!offset || !bytes || !checksum || line.empty()) return std::nullopt;
  return Region{*offset, *bytes, *checksum, line == "-" ? "" : std::string(line)};
}

std::string count(std::uint64_t number) { return std::to_string(number); }

}  // namespace

Seal seal_of(const std::vector<Region>& regions) {
  std::string lines;
  std::uint64_t end = kHeaderBytes;
  for (const Region& region : regions) {
    ensure(region.offset == end, "checkpoint: regions leave no gap");
    end += region.bytes;
    lines += count(region.offset) + " " + count(region.bytes) + " " +
             checksum_text(region.checksum) + " " + (region.path.empty() ? "-" : region.path) +
             "\n";
  }
  Seal seal{"", lines + seal_line(lines)};
  ensure(seal.table.size() <= kMostTableBytes, "checkpoint: too many datasets");
  seal.header = header_of(end, end + seal.table.size());
  return seal;
}

void SealedFile::fail(const std::string& text) const { throw UserError(path_, text); }

SealedFile::SealedFile(const std::filesystem::path& path) : path_(path.string()) {
  open();
  const std::string header = text_at(0, std::min(bytes_, kHeaderBytes));
  if (!header.starts_with(kMagic.substr(0, header.size()))) refuse_unknown(header);
  if (header.size() < kHeaderBytes) {
    fail(format("was cut short (%zu bytes remain).", header.size()) + kRemedy);
  }
  const std::string covered = header.substr(0, kHeaderBytes - kChecksumDigits - 1);
  if (header.substr(covered.size()) != checksum_text(crc32_of(covered)) + "\n") {
    fail(std::string("was changed: its header is damaged.") + kRemedy);
  }
  const std::string version = std::to_string(checkpoint_format::kVersion);
  const std::string found = header.substr(kMagic.size(), header.find('\n') - kMagic.size());
  if (found != version) {
    fail("has version " + found + " (this build reads version " + version +
         "). Read it with the build that wrote it.");
  }
  read_table(header);
}

void SealedFile::open() {
  // Not blocking: a pipe would wait for somebody to write.
  fd_ = OpenFile(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd_ && errno == ENOENT) fail("does not exist. Give the path of a checkpoint.");
  if (!fd_) {
    fail(std::string("cannot be read (") + std::strerror(errno) +
         "). Check the path and its permissions.");
  }
  struct stat status {};
  if (::fstat(fd_.get(), &status) != 0) {
    throw SystemError("cannot examine " + path_ + ": " + std::strerror(errno));
  }
  if (!S_ISREG(status.st_mode)) {
    fail("is a folder or a device (a file is needed). Give the path of a checkpoint.");
  }
  bytes_ = static_cast<std::uint64_t>(status.st_size);
  if (bytes_ == 0) fail(std::string("is empty (a checkpoint has at least a header).") + kRemedy);
}

void SealedFile::refuse_unknown(const std::string& start) const {
  if (ends_in_seal()) fail(std::string("was changed: its header is damaged.") + kRemedy);
  if (start.starts_with(kHdf5Magic)) {
    const std::string end = text_at(bytes_ - std::min<std::uint64_t>(bytes_, 128),
                                    std::min<std::uint64_t>(bytes_, 128));
    if (end.find("\nhetpipe-seal ") != std::string::npos) {
      fail("has version 1 (this build reads version " +
           std::to_string(checkpoint_format::kVersion) +
           "). Read it with the build that wrote it.");
    }
    fail("is an HDF5 file, but not a checkpoint (it lacks the header of one). Give a checkpoint.");
  }
  fail(std::string("is not a checkpoint (it does not start with '") + std::string(kMagic) +
       "'; or its start was overwritten)." + kRemedy);
}

bool SealedFile::ends_in_seal() const {
  if (bytes_ < kSealBytes) return false;
  const std::string end = text_at(bytes_ - kSealBytes, kSealBytes);
  return end.starts_with(kSealWord) && end.back() == '\n';
}

void SealedFile::read_table(const std::string& header) {
  const std::uint64_t bytes = labelled(header, "bytes").value_or(0);
  const std::uint64_t table = labelled(header, "table").value_or(0);
  if (bytes_ < bytes) {
    fail("was cut short (" + count(bytes_) + " of " + count(bytes) + " bytes remain)." + kRemedy);
  }
  if (bytes_ > bytes) {
    fail("was changed: it has " + count(bytes_) + " bytes (" + count(bytes) + " were written)." +
         kRemedy);
  }
  const std::string damaged = std::string("was changed: its table of checksums is damaged.");
  if (table < kHeaderBytes || table > bytes || bytes - table < kSealBytes ||
      bytes - table > kMostTableBytes) {
    fail(damaged + kRemedy);
  }
  const std::string text = text_at(table, bytes - table);
  const std::string lines = text.substr(0, text.size() - kSealBytes);
  if (text.substr(lines.size()) != seal_line(lines)) fail(damaged + kRemedy);
  regions_ = parse_table(lines, table);
}

std::vector<Region> SealedFile::parse_table(const std::string& lines, std::uint64_t end) const {
  const auto refuse = [&] {
    fail(std::string("has a table of checksums that does not match its bytes.") + kRemedy);
  };
  std::vector<Region> regions;
  std::uint64_t reached = kHeaderBytes;
  for (std::size_t start = 0; start < lines.size();) {
    const std::size_t newline = lines.find('\n', start);
    if (newline == std::string::npos) refuse();
    const auto region = region_of(std::string_view(lines).substr(start, newline - start));
    if (!region || region->offset != reached || region->bytes > end - reached) refuse();
    reached += region->bytes;
    regions.push_back(*region);
    start = newline + 1;
  }
  if (reached != end) refuse();
  return regions;
}

void SealedFile::read_at(std::uint64_t offset, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t n = ::pread(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw SystemError("cannot read " + path_ + ": " + std::strerror(errno));
    if (n == 0) fail(std::string("was cut short while it was read.") + kRemedy);
    offset += static_cast<std::uint64_t>(n);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
}

std::string SealedFile::text_at(std::uint64_t offset, std::uint64_t bytes) const {
  std::string text(bytes, '\0');
  read_at(offset, std::as_writable_bytes(std::span(text)));
  return text;
}

void SealedFile::compare(const Region& region, std::uint32_t found, Problems& problems) const {
  if (found == region.checksum) return;
  const std::string what = region.path.empty() ? "bytes " + count(region.offset) + " to " +
                                                     count(region.offset + region.bytes) +
                                                     ", HDF5's own (names, shapes, attributes),"
                                               : "dataset " + region.path;
  problems.add(path_, "was changed: " + what + " has checksum " + checksum_text(found) + " (" +
                          checksum_text(region.checksum) + " was written)." + kRemedy);
}

void SealedFile::check(const Region& region, Problems& problems) const {
  std::vector<std::byte> piece(std::min<std::uint64_t>(region.bytes, kPieceBytes));
  std::uint32_t checksum = 0;
  for (std::uint64_t done = 0; done < region.bytes;) {
    const auto part =
        std::span(piece).first(std::min<std::uint64_t>(region.bytes - done, piece.size()));
    read_at(region.offset + done, part);
    checksum = crc32_of(part, checksum);
    done += part.size();
  }
  compare(region, checksum, problems);
}

void SealedFile::read(const Region& region, std::span<std::byte> values, Problems& problems) const {
  ensure(values.size() == region.bytes, "checkpoint: room for a region");
  std::uint32_t checksum = 0;
  for (std::size_t done = 0; done < values.size();) {  // checked while it is in the cache
    const auto part = values.subspan(done, std::min(values.size() - done, kPieceBytes));
    read_at(region.offset + done, part);
    checksum = crc32_of(part, checksum);
    done += part.size();
  }
  compare(region, checksum, problems);
}

}  // namespace hetpipe::checkpoint_seal
