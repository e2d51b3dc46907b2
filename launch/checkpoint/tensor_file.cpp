// SPDX-License-Identifier: Apache-2.0
#include "launch/checkpoint/tensor_file.h"

#include <bit>
#include <list>
#include <span>
#include <string_view>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "runtime/model/state_names.h"
#include "runtime/store/checksum.h"

namespace hetpipe {
namespace {

static_assert(std::endian::native == std::endian::little, "both formats are little-endian");

constexpr std::size_t kSafetensorsAlignment = 8;
constexpr std::size_t kNpyAlignment = 64;

std::string_view bytes_of(const ExportTensor& tensor) {
  if (!tensor.type.empty()) return tensor.bytes;
  if (tensor.integer) {
    return {reinterpret_cast<const char*>(&*tensor.integer), sizeof(std::int64_t)};
  }
  return {reinterpret_cast<const char*>(tensor.values.data()),
          tensor.values.size() * sizeof(float)};
}

std::string type_of(const ExportTensor& tensor) {
  return !tensor.type.empty() ? tensor.type : tensor.integer ? "I64" : "F32";
}

// NumPy's name of a type. BF16 has none there.
std::string npy_type(const ExportTensor& tensor) {
  static const std::map<std::string, std::string> kTypes{
      {"F64", "<f8"}, {"F32", "<f4"}, {"F16", "<f2"}, {"I64", "<i8"}, {"I32", "<i4"},
      {"I16", "<i2"}, {"I8", "|i1"},  {"U8", "|u1"},  {"BOOL", "|b1"}};
  const auto found = kTypes.find(type_of(tensor));
  if (found != kTypes.end()) return found->second;
  throw UserError(tensor.name, "is of type " + tensor.type +
                                   " (which NumPy does not have). Write a .safetensors file.");
}

// "(3,)", "(2, 3)", "()": a tuple of Python.
std::string tuple(const std::vector<std::int64_t>& shape) {
  std::vector<std::string> sides;
  for (const std::int64_t side : shape) sides.push_back(std::to_string(side));
  return "(" + join(sides, ", ") + (shape.size() == 1 ? ",)" : ")");
}

std::string npy_header(const ExportTensor& tensor) {
  std::string text = format("{'descr': '%s', 'fortran_order': False, 'shape': %s, }",
                            npy_type(tensor).c_str(), tuple(tensor.shape).c_str());
  const std::size_t before = 10;  // magic, version, length
  text.resize(text.size() + kNpyAlignment - 1 - (before + text.size()) % kNpyAlignment, ' ');
  text += '\n';
  std::string header = "\x93NUMPY";
  append_number(header, std::uint16_t{1});  // version 1.0
  append_number(header, static_cast<std::uint16_t>(text.size()));
  return header + text;
}

}  // namespace

void write_safetensors(const std::filesystem::path& path, const std::vector<ExportTensor>& tensors,
                       const std::map<std::string, std::string>& facts) {
  Json json{{"__metadata__", facts}};
  std::uint64_t end = 0;
  std::vector<std::string_view> pieces(1);
  for (const ExportTensor& tensor : tensors) {
    const std::uint64_t start = end;
    end += bytes_of(tensor).size();
    json[tensor.name] = {{"dtype", type_of(tensor)},
                         {"shape", tensor.shape},
                         {"data_offsets", Json::Array{start, end}}};
    pieces.push_back(bytes_of(tensor));
  }
  std::string text = json.dump();
  text.resize(
      (text.size() + kSafetensorsAlignment - 1) / kSafetensorsAlignment * kSafetensorsAlignment,
      ' ');
  std::string header;
  append_number(header, std::uint64_t{text.size()});
  header += text;
  pieces.front() = header;
  write_file(path, pieces);
}

void write_npz(const std::filesystem::path& path, const std::vector<ExportTensor>& tensors) {
  ZipHeaders zip;
  std::list<std::string> owned;
  std::vector<std::string_view> pieces;
  for (const ExportTensor& tensor : tensors) {
    const std::string npy = npy_header(tensor);
    const std::uint32_t crc = crc32_of(bytes_of(tensor), crc32_of(npy));
    owned.push_back(zip.member(tensor.name + ".npy", crc, npy.size() + bytes_of(tensor).size()) +
                    npy);
    pieces.push_back(owned.back());
    pieces.push_back(bytes_of(tensor));
  }
  owned.push_back(zip.end());
  pieces.push_back(owned.back());
  write_file(path, pieces);
}

namespace {

std::string dotted(std::string name) {
  for (char& c : name) c = c == '/' ? '.' : c;
  return name;
}

ExportTensor torch_tensor(const std::string& prefix, const NamedTensor& tensor) {
  if (tensor.order == kTorchOrder)
    return {prefix + dotted(tensor.name), tensor.shape, tensor.values};
  ExportTensor out{prefix + state_name_of_parameter(tensor.name), tensor.shape, tensor.values};
  if (tensor.order != kInOut) return out;
  const auto rows = static_cast<std::size_t>(tensor.shape[0]);
  const auto columns = static_cast<std::size_t>(tensor.shape[1]);
  out.shape = {tensor.shape[1], tensor.shape[0]};
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t c = 0; c < columns; ++c) {
      out.values[c * rows + r] = tensor.values[r * columns + c];
    }
  }
  return out;
}

}  // namespace

std::vector<ExportTensor> torch_tensors(const Checkpoint& checkpoint, ExportSlots slots) {
  std::vector<ExportTensor> all;
  const auto add = [&](const std::string& prefix, const std::vector<NamedTensor>& tensors) {
    for (const NamedTensor& tensor : tensors) all.push_back(torch_tensor(prefix, tensor));
  };
  add("", checkpoint.parameters);
  for (const NamedTensor& tensor : checkpoint.statistics) {
    if (tensor.order == kTorchOrder) {
      all.push_back(torch_tensor("", tensor));
    } else {
      all.push_back({state_name_of_statistic(tensor.name), tensor.shape, tensor.values});
    }
    const std::string& name = all.back().name;
    if (!name.ends_with(kRunningVariance)) continue;
    const std::string of = name.substr(0, name.size() - std::string_view(kRunningVariance).size());
    all.push_back({.name = of + "num_batches_tracked",
                   .shape = {},
                   .values = {},
                   .integer = checkpoint.minibatches_of_worker()});
  }
  if (slots == ExportSlots::no) return all;
  for (const auto& [slot, tensors] : checkpoint.slots) add("optimizer." + slot + ".", tensors);
  return all;
}

std::vector<ExportTensor> raw_tensors(const Checkpoint& checkpoint, ExportSlots slots) {
  std::vector<ExportTensor> all;
  const auto add = [&](const std::string& group, const std::vector<NamedTensor>& tensors) {
    for (const NamedTensor& tensor : tensors) {
      all.push_back({group + "/" + tensor.name, tensor.shape, tensor.values});
    }
  };
  add("model", checkpoint.parameters);
  add("model", checkpoint.statistics);
  if (slots == ExportSlots::no) return all;
  for (const auto& [slot, tensors] : checkpoint.slots) add("optimizer/" + slot, tensors);
  return all;
}

}  // namespace hetpipe
