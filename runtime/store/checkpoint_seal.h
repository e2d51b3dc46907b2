// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file_descriptor.h"

// The seal of a checkpoint file: detects damage without HDF5, which crashes or hangs on flipped
// bits (1.10.8), and so never opens a file before its bytes are known to be those that were
// written. Private to this folder.
//
//   header  512 bytes (HDF5's user block): version, length of the file, where the table starts
//   image   HDF5's bytes
//   table   one line per region of the image: offset, bytes, CRC-32, path of the dataset or "-";
//           last the line "hetpipe-seal CRC", of the lines before it
namespace hetpipe::checkpoint_seal {

inline constexpr std::uint64_t kHeaderBytes = 512;

// Bytes of the image: the values of one dataset, or HDF5's own (structure, names, attributes).
struct Region {
  std::uint64_t offset = 0;  // in the file
  std::uint64_t bytes = 0;
  std::uint32_t checksum = 0;
  std::string path;  // of the dataset; empty: HDF5's own
  bool operator==(const Region&) const = default;
};

struct Seal {
  std::string header;
  std::string table;
};

// Regions in the order of the file, without gaps from the header's end to that of the image.
Seal seal_of(const std::vector<Region>& regions);

// A file whose header, length and table are right. What the regions hold is not looked at before
// one is read.
class SealedFile {
 public:
  // UserError saying what is wrong: no file, no checkpoint, of another version, cut short, header
  // or table damaged.
  explicit SealedFile(const std::filesystem::path& path);

  const std::vector<Region>& regions() const { return regions_; }
  int descriptor() const { return fd_.get(); }

  // Adds the problem to `problems` when the bytes are not those that were written.
  void check(const Region& region, Problems& problems) const;
  void read(const Region& region, std::span<std::byte> values, Problems& problems) const;

 private:
  void open();
  void read_table(const std::string& header);
  std::vector<Region> parse_table(const std::string& lines, std::uint64_t end) const;
  [[noreturn]] void refuse_unknown(const std::string& start) const;
  bool ends_in_seal() const;
  std::string text_at(std::uint64_t offset, std::uint64_t bytes) const;
  void read_at(std::uint64_t offset, std::span<std::byte> bytes) const;
  void compare(const Region& region, std::uint32_t found, Problems& problems) const;
  [[noreturn]] void fail(const std::string& text) const;

  std::string path_;
  OpenFile fd_;
  std::uint64_t bytes_ = 0;
  std::vector<Region> regions_;
};

}  // namespace hetpipe::checkpoint_seal
