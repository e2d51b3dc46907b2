// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/dnn/descriptor.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/error.h"
#include "base/text.h"

namespace hetpipe::cuda {
namespace {

std::string last_reason() {
  std::array<char, 1024> text{};
  cudnnGetLastErrorString(text.data(), text.size());
  const std::string all = text.data();
  return all.substr(0, all.find('\n'));  // the first cause; what followed from it comes after
}

}  // namespace

void check(cudnnStatus_t status, std::string_view doing, const std::source_location& where) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  const char* const slash = std::strrchr(where.file_name(), '/');
  const std::string reason = last_reason();
  throw SystemError(format("cuDNN: %s%s%s%s, %.*s (%s:%u)", cudnnGetErrorString(status),
                           reason.empty() ? "" : " (", reason.c_str(), reason.empty() ? "" : ")",
                           static_cast<int>(doing.size()), doing.data(),
                           slash != nullptr ? slash + 1 : where.file_name(), where.line()));
}

Descriptor::Descriptor(cudnnBackendDescriptorType_t type) {
  cudnnBackendDescriptor_t handle = nullptr;
  check(cudnnBackendCreateDescriptor(type, &handle), "making a descriptor");
  handle_ = UniqueHandle<DescriptorTraits>(handle);
}

void Descriptor::set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                     std::int64_t count, const void* values) {
  const cudnnStatus_t status = cudnnBackendSetAttribute(get(), name, type, count, values);
  if (status != CUDNN_STATUS_SUCCESS) {
    check(status, format("setting attribute %d", static_cast<int>(name)));
  }
}

void Descriptor::set(cudnnBackendAttributeName_t name, std::int64_t value) {
  set(name, CUDNN_TYPE_INT64, 1, &value);
}
void Descriptor::set(cudnnBackendAttributeName_t name, float value) {
  set(name, CUDNN_TYPE_FLOAT, 1, &value);
}
void Descriptor::set(cudnnBackendAttributeName_t name, bool value) {
  set(name, CUDNN_TYPE_BOOLEAN, 1, &value);
}
void Descriptor::set(cudnnBackendAttributeName_t name, std::span<const std::int64_t> values) {
  set(name, CUDNN_TYPE_INT64, static_cast<std::int64_t>(values.size()), values.data());
}
void Descriptor::set(cudnnBackendAttributeName_t name, const Descriptor& other) {
  const cudnnBackendDescriptor_t handle = other.get();
  set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &handle);
}

void Descriptor::finalize(std::string_view doing) { check(cudnnBackendFinalize(get()), doing); }

std::optional<std::string> Descriptor::try_finalize(std::string_view doing) {
  const cudnnStatus_t status = cudnnBackendFinalize(get());
  if (status == CUDNN_STATUS_SUCCESS) return std::nullopt;
  // What a library cannot do it says in many ways: a pattern, a shape, an engine whose kernel does
  // not compile. Only what concerns the machine is a failure.
  const int category = CUDNN_STATUS_CATEGORY(static_cast<int>(status));
  if (category != CUDNN_STATUS_BAD_PARAM && category != CUDNN_STATUS_NOT_SUPPORTED &&
      category != CUDNN_STATUS_INTERNAL_ERROR) {
    check(status, doing);
  }
  return format("%s (%s)", cudnnGetErrorString(status), last_reason().c_str());
}

void Descriptor::get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                     std::int64_t room, std::int64_t* count, void* values) const {
  const cudnnStatus_t status =
      cudnnBackendGetAttribute(handle_.get(), name, type, room, count, values);
  if (status != CUDNN_STATUS_SUCCESS) {
    check(status, format("asking for attribute %d", static_cast<int>(name)));
  }
}

std::int64_t Descriptor::get_int64(cudnnBackendAttributeName_t name) const {
  std::int64_t value = 0, count = 0;
  get(name, CUDNN_TYPE_INT64, 1, &count, &value);
  return value;
}

std::string Descriptor::get_text(cudnnBackendAttributeName_t name) const {
  const std::vector<char> text = get_enums<char>(name, CUDNN_TYPE_CHAR);
  return std::string(text.begin(), text.end()).c_str();  // NOLINT: ends at the first zero
}

std::vector<Descriptor> Descriptor::get_descriptors(cudnnBackendAttributeName_t name,
                                                    cudnnBackendDescriptorType_t type,
                                                    std::int64_t room) const {
  std::vector<Descriptor> descriptors;
  for (std::int64_t i = 0; i < room; ++i) descriptors.emplace_back(type);
  std::vector<cudnnBackendDescriptor_t> handles = handles_of(descriptors);
  std::int64_t count = 0;
  get(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, room, &count, handles.data());
  descriptors.resize(static_cast<std::size_t>(std::min(count, room)));
  return descriptors;
}

std::vector<cudnnBackendDescriptor_t> handles_of(std::span<const Descriptor> descriptors) {
  std::vector<cudnnBackendDescriptor_t> handles;
  for (const Descriptor& descriptor : descriptors) handles.push_back(descriptor.get());
  return handles;
}

}  // namespace hetpipe::cuda
