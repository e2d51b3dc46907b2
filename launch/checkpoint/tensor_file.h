// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/store/checkpoint.h"

// Tensors for other programs: safetensors (PyTorch, JAX) and npz (NumPy). Written like every file
// here: to a temporary name, synced, renamed; SystemError leaves nothing behind.
namespace hetpipe {

struct ExportTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::vector<float> values;              // row-major
  std::optional<std::int64_t> integer{};  // in place of values: one, of shape ()
  // In place of values: bytes of another type, as safetensors calls it ("I64", "BOOL").
  std::string type = {};
  std::string bytes = {};
  bool operator==(const ExportTensor&) const = default;
};

// https://github.com/huggingface/safetensors: 8 bytes of length, a JSON header, the values.
// `facts` become its metadata.
void write_safetensors(const std::filesystem::path& path, const std::vector<ExportTensor>& tensors,
                       const std::map<std::string, std::string>& facts);

// A zip file (stored, with zip64 where sizes need it) of one NAME.npy per tensor.
void write_npz(const std::filesystem::path& path, const std::vector<ExportTensor>& tensors);

// A number as it lies in memory; all of these formats are little-endian.
template <class Number>
void append_number(std::string& to, Number value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// The parts of a zip file around the data of its members, which the caller writes.
class ZipHeaders {
 public:
  // The header before the data of the next member.
  std::string member(const std::string& name, std::uint32_t crc32, std::uint64_t bytes);
  std::string end() const;  // after the last one

 private:
  std::string directory_;
  std::uint64_t offset_ = 0;
  std::uint64_t members_ = 0;
};

// A state_dict's names and layouts from a checkpoint: "conv1.weight", "bn1.running_var" and
// "bn1.num_batches_tracked"; linear weights as (out, in), convolutions as OIHW. Flatten layers
// already go by C, H, W, as PyTorch's.
enum class ExportSlots { no, yes };  // "optimizer.velocity.conv1.weight"
std::vector<ExportTensor> torch_tensors(const Checkpoint& checkpoint, ExportSlots slots);
// The whole state_dict of an exported model, in its order: what the checkpoint holds, and from the
// folder what training does not change. UserError where the checkpoint is of another model.
std::vector<ExportTensor> state_dict_of(const Checkpoint& checkpoint, const std::string& where,
                                        const std::filesystem::path& model);
// As stored: "model/conv1/weight".
std::vector<ExportTensor> raw_tensors(const Checkpoint& checkpoint, ExportSlots slots);

}  // namespace hetpipe
