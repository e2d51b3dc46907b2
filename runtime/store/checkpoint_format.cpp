// SPDX-License-Identifier: Apache-2.0
#include "runtime/store/checkpoint_format.h"

#include <algorithm>
#include <fstream>
#include <span>

#include "base/error.h"
#include "base/hash.h"
#include "base/text.h"

namespace hetpipe::checkpoint_format {
namespace {

void add_all(std::vector<Entry>& entries, const std::string& group, const std::string& kind,
             const std::vector<NamedTensor>& tensors) {
  for (const NamedTensor& tensor : tensors) {
    for (const std::string& part : split(tensor.name, '/')) {
      ensure(!part.empty() && part != "." && part != "..",
             "checkpoint: '" + tensor.name + "' is no name for a tensor");
    }
    std::int64_t count = 1;
    for (std::int64_t side : tensor.shape) count *= side;
    ensure(count == static_cast<std::int64_t>(tensor.values.size()),
           "checkpoint: shape and values of '" + tensor.name + "' disagree");
    entries.push_back({group + "/" + tensor.name, kind, &tensor});
  }
}

std::string seal_text(std::uintmax_t bytes, std::uint64_t hash) {
  return format("\nhetpipe-seal %020llu %s\n", static_cast<unsigned long long>(bytes),
                to_hex(hash).c_str());
}

// All seals are equally long.
std::size_t seal_size() { return seal_text(0, 0).size(); }

struct SealedFile {
  std::ifstream in;
  std::uintmax_t image_bytes = 0;
  std::string seal;  // empty when the file is too short to have one
};

SealedFile open_sealed(const std::filesystem::path& path) {
  SealedFile file{std::ifstream(path, std::ios::binary), 0, ""};
  std::error_code code;
  const std::uintmax_t bytes = std::filesystem::file_size(path, code);
  if (code || bytes < seal_size()) return file;
  file.image_bytes = bytes - seal_size();
  file.seal.resize(seal_size());
  file.in.seekg(static_cast<std::streamoff>(file.image_bytes));
  file.in.read(file.seal.data(), static_cast<std::streamsize>(file.seal.size()));
  file.in.seekg(0);
  return file;
}

}  // namespace

std::vector<Entry> entries_of(const Checkpoint& checkpoint) {
  std::vector<Entry> entries;
  add_all(entries, "model", "parameter", checkpoint.parameters);
  add_all(entries, "model", "statistic", checkpoint.statistics);
  for (const auto& [slot, tensors] : checkpoint.slots) {
    ensure(!slot.empty() && slot.find('/') == std::string::npos, "checkpoint: name of a slot");
    add_all(entries, "optimizer/" + slot, "slot", tensors);
  }
  if (checkpoint.exact) add_all(entries, kExact, "exact", checkpoint.exact->tensors);
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.path < b.path; });
  for (std::size_t i = 1; i < entries.size(); ++i) {
    ensure(entries[i - 1].path != entries[i].path,
           "checkpoint: two tensors are called '" + entries[i].path + "'");
  }
  return entries;
}

std::string seal_of(std::string_view image) { return seal_text(image.size(), hash_text(image)); }

Seal find_seal(const std::filesystem::path& path) {
  const SealedFile file = open_sealed(path);
  const std::string wanted = seal_text(file.image_bytes, 0);
  const std::size_t without_hash = wanted.size() - to_hex(0).size() - 1;
  const bool found =
      !file.seal.empty() && file.seal.substr(0, without_hash) == wanted.substr(0, without_hash);
  return found ? Seal::present : Seal::missing;
}

bool is_intact(const std::filesystem::path& path) {
  SealedFile file = open_sealed(path);
  if (file.seal.empty()) return false;
  std::vector<char> piece(1 << 20);
  std::uint64_t hash = kHashStart;
  for (std::uintmax_t left = file.image_bytes; left > 0;) {
    const std::uintmax_t count = std::min<std::uintmax_t>(left, piece.size());
    file.in.read(piece.data(), static_cast<std::streamsize>(count));
    if (!file.in) throw SystemError("reading " + path.string() + " failed");
    hash = hash_bytes(std::as_bytes(std::span(piece).first(count)), hash);
    left -= count;
  }
  return file.seal == seal_text(file.image_bytes, hash);
}

}  // namespace hetpipe::checkpoint_format
