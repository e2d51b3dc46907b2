// SPDX-License-Identifier: Apache-2.0
#include "base/safetensors.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cstring>
#include <functional>
#include <numeric>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/text.h"

namespace hetpipe {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr std::uint64_t kLargestHeader = 100'000'000;  // bytes, as the format says

std::size_t bytes_of_type(const std::string& type) {
  static const std::map<std::string, std::size_t> kTypes{
      {"F64", 8}, {"F32", 4}, {"F16", 2},  {"BF16", 2}, {"I64", 8}, {"I32", 4}, {"I16", 2},
      {"I8", 1},  {"U8", 1},  {"BOOL", 1}, {"U16", 2},  {"U32", 4}, {"U64", 8}};
  const auto found = kTypes.find(type);
  return found == kTypes.end() ? 0 : found->second;
}

template <class T>
T number_at(std::span<const std::byte> bytes, std::int64_t i) {
  T value;
  std::memcpy(&value, bytes.data() + static_cast<std::size_t>(i) * sizeof(T), sizeof(T));
  return value;
}

float half_to_float(std::uint16_t h) {
  const std::uint32_t sign = std::uint32_t{h & 0x8000u} << 16;
  const std::uint32_t exponent = (h >> 10) & 31, mantissa = h & 1023u;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent != 0) {
    return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  }
  const float small = static_cast<float>(mantissa) * 0x1p-24f;
  return sign != 0 ? -small : small;
}

// read(i) for every element.
template <class T, class Read>
std::vector<T> all(std::int64_t count, const Read& read) {
  std::vector<T> values(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) values[static_cast<std::size_t>(i)] = read(i);
  return values;
}

template <class T>
std::vector<T> converted(const TensorInFile& t, const std::string& where) {
  const std::int64_t n = t.elements();
  const auto as = [&]<class From>(From) {
    return all<T>(n, [&](std::int64_t i) { return static_cast<T>(number_at<From>(t.bytes, i)); });
  };
  if (t.type == "F32") return as(float{});
  if (t.type == "F64") return as(double{});
  if (t.type == "I64") return as(std::int64_t{});
  if (t.type == "I32") return as(std::int32_t{});
  if (t.type == "I16") return as(std::int16_t{});
  if (t.type == "I8") return as(std::int8_t{});
  if (t.type == "U8" || t.type == "BOOL") return as(std::uint8_t{});
  if (t.type == "BF16") {
    return all<T>(n, [&](std::int64_t i) {
      return static_cast<T>(
          std::bit_cast<float>(std::uint32_t{number_at<std::uint16_t>(t.bytes, i)} << 16));
    });
  }
  if (t.type == "F16") {
    return all<T>(n, [&](std::int64_t i) {
      return static_cast<T>(half_to_float(number_at<std::uint16_t>(t.bytes, i)));
    });
  }
  throw UserError(
      where, "is of type " + t.type + " (which is not read here). Store it as float32 or int64.");
}

}  // namespace

std::int64_t TensorInFile::elements() const {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

Safetensors::Safetensors(const std::filesystem::path& path) : path_(path) {
  check_regular_file(path);
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat facts {};
  if (file < 0 || ::fstat(file, &facts) != 0) {
    if (file >= 0) ::close(file);
    throw UserError(path.string(), "cannot be read. Check its permissions.");
  }
  const auto size = static_cast<std::size_t>(facts.st_size);
  if (size >= 8) {
    void* const memory = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
    if (memory != MAP_FAILED) file_ = {static_cast<const std::byte*>(memory), size};
  }
  ::close(file);
  if (file_.empty()) {
    throw UserError(path.string(),
                    format("is no safetensors file (%zu bytes). Export it again.", size));
  }
  try {
    read_header();
  } catch (...) {
    ::munmap(const_cast<std::byte*>(file_.data()), file_.size());
    throw;
  }
}

Safetensors::~Safetensors() { ::munmap(const_cast<std::byte*>(file_.data()), file_.size()); }

void Safetensors::read_header() {
  const auto refuse = [&](const std::string& what) {
    throw UserError(path_.string(), what + ". Export it again.");
  };
  const auto length = number_at<std::uint64_t>(file_, 0);
  if (length > kLargestHeader || length > file_.size() - 8) {
    refuse(format("is cut short, or no safetensors file (a header of %llu bytes)",
                  static_cast<unsigned long long>(length)));
  }
  const std::span<const std::byte> data = file_.subspan(8 + length);
  try {
    const Json header = Json::parse(
        {reinterpret_cast<const char*>(file_.data()) + 8, static_cast<std::size_t>(length)});
    for (const Json::Member& member : header.members()) {
      if (member.key == "__metadata__") continue;
      TensorInFile tensor;
      tensor.type = member.value.at("dtype").get<std::string>();
      const Json& shape = member.value.at("shape");
      for (const Json& extent : shape.items()) tensor.shape.push_back(extent.get<std::int64_t>());
      const Json& offsets = member.value.at("data_offsets");
      const auto begin = offsets.at(std::size_t{0}).get<std::uint64_t>();
      const auto end = offsets.at(std::size_t{1}).get<std::uint64_t>();
      double elements = 1;
      for (const std::int64_t extent : tensor.shape) {
        if (extent < 0) refuse("tensor '" + member.key + "' has a negative extent");
        elements *= static_cast<double>(extent);
      }
      const std::size_t bytes = bytes_of_type(tensor.type);
      if (begin > end || end > data.size() ||
          (bytes != 0 &&
           elements * static_cast<double>(bytes) != static_cast<double>(end - begin))) {
        refuse("tensor '" + member.key + "' is not all in the file");
      }
      tensor.bytes = data.subspan(begin, end - begin);
      tensors_.emplace(member.key, std::move(tensor));
    }
  } catch (const JsonError& error) {
    refuse(std::string("has a damaged header (") + error.what() + ")");
  }
}

const TensorInFile* Safetensors::find(const std::string& name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

const TensorInFile& Safetensors::at(const std::string& name) const {
  const TensorInFile* const tensor = find(name);
  if (tensor == nullptr) {
    std::vector<std::string> names;
    for (const auto& [key, value] : tensors_) names.push_back(key);
    throw UserError(path_.string(), unknown("tensor", name, names) + ". Export it again.");
  }
  return *tensor;
}

std::vector<float> Safetensors::floats(const std::string& name) const {
  return converted<float>(at(name), path_.string() + ": tensor '" + name + "'");
}
std::vector<std::int64_t> Safetensors::integers(const std::string& name) const {
  return converted<std::int64_t>(at(name), path_.string() + ": tensor '" + name + "'");
}

}  // namespace hetpipe
