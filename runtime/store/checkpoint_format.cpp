// SPDX-License-Identifier: Apache-2.0
#include "runtime/store/checkpoint_format.h"

#include <algorithm>
#include <bit>
#include <span>

#include "base/error.h"
#include "base/hash.h"
#include "base/text.h"

namespace hetpipe::checkpoint_format {
namespace {

static_assert(std::endian::native == std::endian::little, "checksums are of little-endian bytes");

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
    entries.push_back({group + "/" + tensor.name, kind, &tensor,
                       hash_bytes(std::as_bytes(std::span(tensor.values)))});
  }
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
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.path < b.path; });
  for (std::size_t i = 1; i < entries.size(); ++i) {
    ensure(entries[i - 1].path != entries[i].path,
           "checkpoint: two tensors are called '" + entries[i].path + "'");
  }
  return entries;
}

std::uint64_t names_checksum(const std::vector<Entry>& entries) {
  std::uint64_t hash = kHashStart;
  for (const Entry& entry : entries) hash = hash_text(entry.path + "\n", hash);
  return hash;
}

std::uint64_t contents_checksum(const Checkpoint& c, const std::vector<Entry>& entries) {
  std::vector<std::string> lines{"model " + c.model,
                                 "model_fingerprint " + to_hex(c.model_fingerprint),
                                 "system " + c.system,
                                 "precision " + c.precision,
                                 "minibatches " + std::to_string(c.minibatches),
                                 "label " + std::to_string(c.label),
                                 "seed " + std::to_string(c.sampler.seed),
                                 "dataset_size " + std::to_string(c.sampler.dataset_size),
                                 "dataset_fingerprint " + to_hex(c.sampler.dataset_fingerprint),
                                 "consumed " + std::to_string(c.sampler.consumed),
                                 "optimizer " + c.optimizer,
                                 "step " + std::to_string(c.optimizer_step)};
  for (const Entry& entry : entries) {
    std::string line = entry.path + " " + entry.kind + " " + entry.tensor->order + " ";
    for (std::int64_t side : entry.tensor->shape) line += std::to_string(side) + ",";
    lines.push_back(line + " " + to_hex(entry.checksum));
  }
  return hash_text(join(lines, "\n"));
}

}  // namespace hetpipe::checkpoint_format
