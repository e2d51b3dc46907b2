// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

// Reads safetensors files (https://github.com/huggingface/safetensors): 8 bytes of length, a JSON
// header, the values.
namespace hetpipe {

struct TensorInFile {
  std::string type;  // "F32", "I64", "BOOL" ...
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;

  std::int64_t elements() const;
};

class Safetensors {
 public:
  // Maps the file; bytes are read when they are asked for. UserError naming the file where it is
  // missing, cut short or no such file.
  explicit Safetensors(const std::filesystem::path& path);
  ~Safetensors();
  Safetensors(const Safetensors&) = delete;
  Safetensors& operator=(const Safetensors&) = delete;

  const std::filesystem::path& path() const { return path_; }
  const std::map<std::string, TensorInFile>& tensors() const { return tensors_; }
  const TensorInFile* find(const std::string& name) const;
  const TensorInFile& at(const std::string& name) const;  // UserError where there is none

  // Converted where they are of another type (half precision, double, whole numbers, booleans).
  // UserError for a type that is none of these.
  std::vector<float> floats(const std::string& name) const;
  std::vector<std::int64_t> integers(const std::string& name) const;

 private:
  void read_header();

  std::filesystem::path path_;
  std::span<const std::byte> file_;
  std::map<std::string, TensorInFile> tensors_;
};

}  // namespace hetpipe
