// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cudnn.h>

#include <cstdint>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_handle.h"

// cuDNN's backend descriptors: named attributes are set, then the descriptor is finalised, then it
// can be asked. Statuses become SystemError that says what was being done and the library's reason.
static_assert(CUDNN_VERSION >= 90800, "cuDNN 9.8 or later: it describes devices as values");

namespace hetpipe::cuda {

void check(cudnnStatus_t status, std::string_view doing,
           const std::source_location& where = std::source_location::current());

struct DescriptorTraits {
  using Handle = cudnnBackendDescriptor_t;
  static Handle empty() { return nullptr; }
  static void close(Handle handle) noexcept { cudnnBackendDestroyDescriptor(handle); }
};

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(cudnnBackendDescriptorType_t type);

  cudnnBackendDescriptor_t get() const { return handle_.get(); }
  explicit operator bool() const { return static_cast<bool>(handle_); }

  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count,
           const void* values);
  void set(cudnnBackendAttributeName_t name, std::int64_t value);
  void set(cudnnBackendAttributeName_t name, float value);
  void set(cudnnBackendAttributeName_t name, bool value);
  void set(cudnnBackendAttributeName_t name, std::span<const std::int64_t> values);
  void set(cudnnBackendAttributeName_t name, const Descriptor& other);
  // For the enumerations, each with its own attribute type.
  template <class Enum>
  void set_enum(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, Enum value) {
    set(name, type, 1, &value);
  }

  void finalize(std::string_view doing);
  // The reason, where the library does not support what is described; other failures throw.
  std::optional<std::string> try_finalize(std::string_view doing);

  std::int64_t get_int64(cudnnBackendAttributeName_t name) const;
  std::string get_text(cudnnBackendAttributeName_t name) const;
  template <class Enum>
  Enum get_enum(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type) const {
    Enum value{};
    std::int64_t count = 0;
    get(name, type, 1, &count, &value);
    return value;
  }
  template <class Enum>
  std::vector<Enum> get_enums(cudnnBackendAttributeName_t name,
                              cudnnBackendAttributeType_t type) const {
    std::int64_t count = 0;
    get(name, type, 0, &count, nullptr);
    std::vector<Enum> values(static_cast<std::size_t>(count));
    if (count > 0) get(name, type, count, &count, values.data());
    values.resize(static_cast<std::size_t>(count));
    return values;
  }
  // Copies of the descriptors that an attribute holds, at most `room`: not every attribute tells
  // how many there are before it is given room.
  std::vector<Descriptor> get_descriptors(cudnnBackendAttributeName_t name,
                                          cudnnBackendDescriptorType_t type,
                                          std::int64_t room) const;

 private:
  void get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t room,
           std::int64_t* count, void* values) const;

  UniqueHandle<DescriptorTraits> handle_;
};

// The handles of several, as attributes want them.
std::vector<cudnnBackendDescriptor_t> handles_of(std::span<const Descriptor> descriptors);

}  // namespace hetpipe::cuda
