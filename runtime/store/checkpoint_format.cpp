// SPDX-License-Identifier: Apache-2.0
#include "runtime/store/checkpoint_format.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/text.h"

namespace hetpipe::checkpoint_format {
namespace {

// Paths are lines of the list of names and of the table of checksums.
bool is_name(const std::string& part) {
  return !part.empty() && part != "." && part != ".." &&
         std::none_of(part.begin(), part.end(), [](unsigned char c) { return c < 0x20; });
}

void add_all(std::vector<Entry>& entries, const std::string& group, const std::string& kind,
             const std::vector<NamedTensor>& tensors) {
  for (const NamedTensor& tensor : tensors) {
    for (const std::string& part : split(tensor.name, '/')) {
      ensure(is_name(part), "checkpoint: '" + tensor.name + "' is not a name for a tensor");
    }
    std::int64_t count = 1;
    for (std::int64_t side : tensor.shape) count *= side;
    ensure(count == static_cast<std::int64_t>(tensor.values.size()),
           "checkpoint: shape and values of '" + tensor.name + "' disagree");
    entries.push_back({group + "/" + tensor.name, kind, &tensor});
  }
}

}  // namespace

std::string hex_of_bytes(const std::string& bytes) {
  std::string hex;
  for (const char byte : bytes) hex += format("%02x", static_cast<unsigned char>(byte));
  return hex;
}

std::optional<std::string> bytes_of_hex(const std::string& hex) {
  if (hex.size() % 2 != 0) return std::nullopt;
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    unsigned value = 0;
    const auto [stop, error] = std::from_chars(hex.data() + i, hex.data() + i + 2, value, 16);
    if (error != std::errc() || stop != hex.data() + i + 2) return std::nullopt;
    bytes.push_back(static_cast<char>(value));
  }
  return bytes;
}

std::vector<Entry> entries_of(const Checkpoint& checkpoint) {
  std::vector<Entry> entries;
  add_all(entries, "model", "parameter", checkpoint.parameters);
  add_all(entries, "model", "statistic", checkpoint.statistics);
  for (const auto& [slot, tensors] : checkpoint.slots) {
    ensure(is_name(slot) && slot.find('/') == std::string::npos, "checkpoint: name of a slot");
    add_all(entries, "optimizer/" + slot, "slot", tensors);
  }
  if (checkpoint.exact) add_all(entries, kExact, "exact", checkpoint.exact->tensors);
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.path < b.path; });
  for (std::size_t i = 1; i < entries.size(); ++i) {
    ensure(entries[i - 1].path != entries[i].path,
           "checkpoint: two tensors are named '" + entries[i].path + "'");
  }
  return entries;
}

void for_each_tensor(Checkpoint& checkpoint,
                     const std::function<void(const std::string&, NamedTensor&)>& act) {
  const auto visit = [&](const std::string& group, std::vector<NamedTensor>& tensors) {
    for (NamedTensor& tensor : tensors) act(group + "/" + tensor.name, tensor);
  };
  visit("model", checkpoint.parameters);
  visit("model", checkpoint.statistics);
  for (auto& [slot, tensors] : checkpoint.slots) visit("optimizer/" + slot, tensors);
  if (checkpoint.exact) visit(kExact, checkpoint.exact->tensors);
}

}  // namespace hetpipe::checkpoint_format
