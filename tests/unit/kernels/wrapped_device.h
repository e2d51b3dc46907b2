// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/devices.h"

namespace hetpipe::test {

// Another device (the reference device unless one is given), for tests that change some of what it
// does. Fuses nothing.
class WrappedDevice : public Device {
 public:
  WrappedDevice() : WrappedDevice(make_device("reference", 1)) {}
  explicit WrappedDevice(std::unique_ptr<Device> real) : real_(std::move(real)) {}

  const std::string& kind() const override { return real_->kind(); }
  std::string description() const override { return real_->description(); }
  std::unique_ptr<Stream> make_stream() override { return real_->make_stream(); }
  Precision precision() const override { return real_->precision(); }
  bool host_memory() const override { return real_->host_memory(); }
  std::byte* allocate(Stream& stream, std::size_t bytes, MemoryKind memory_kind) override {
    return real_->allocate(stream, bytes, memory_kind);
  }
  void release(Stream& stream, std::byte* memory, std::size_t bytes,
               MemoryKind memory_kind) noexcept override {
    real_->release(stream, memory, bytes, memory_kind);
  }
  std::byte* allocate_host(std::size_t bytes) override { return real_->allocate_host(bytes); }
  void release_host(std::byte* memory, std::size_t bytes) noexcept override {
    real_->release_host(memory, bytes);
  }
  void accumulate(Stream& stream, std::byte* y, const std::byte* x, std::int64_t count) override {
    real_->accumulate(stream, y, x, count);
  }
  void convert(Stream& stream, std::byte* to, ElementType to_type, const std::byte* from,
               ElementType from_type, std::int64_t count) override {
    real_->convert(stream, to, to_type, from, from_type, count);
  }
  void unpack(Stream& stream, std::byte* to, ElementType to_type, const std::byte* from,
              SampleType from_type, std::int64_t count, const PixelScale& scale) override {
    real_->unpack(stream, to, to_type, from, from_type, count, scale);
  }
  void load_code() override { real_->load_code(); }
  MemoryAccount& memory() override { return real_->memory(); }
  void copy(Stream& stream, std::byte* to, const std::byte* from, std::size_t bytes) override {
    real_->copy(stream, to, from, bytes);
  }
  std::unique_ptr<LayerKernel> make_kernel(const LayerSpec& spec, const std::vector<Shape>& inputs,
                                           std::uint64_t key) override {
    return real_->make_kernel(spec, inputs, key);
  }
  void fill(Stream& stream, float* x, float value, std::int64_t count) override {
    real_->fill(stream, x, value, count);
  }
  void add(Stream& stream, float* y, const float* x, std::int64_t count) override {
    real_->add(stream, y, x, count);
  }
  void sum(Stream& stream, float* z, const float* x, const float* y, std::int64_t count) override {
    real_->sum(stream, z, x, y, count);
  }
  void scale(Stream& stream, float* y, float factor, std::int64_t count) override {
    real_->scale(stream, y, factor, count);
  }
  void sum_of_squares(Stream& stream, double* sum, const float* x, std::int64_t count) override {
    real_->sum_of_squares(stream, sum, x, count);
  }
  void limit_norm(Stream& stream, float* y, const double* squares, std::int64_t parts,
                  double max_norm, std::int64_t count) override {
    real_->limit_norm(stream, y, squares, parts, max_norm, count);
  }
  void sgd(Stream& stream, float* delta, float* velocity, const float* gradient,
           const float* weights, const SgdOptions& options, std::int64_t count) override {
    real_->sgd(stream, delta, velocity, gradient, weights, options, count);
  }
  void adam(Stream& stream, float* delta, float* first, float* second, const float* gradient,
            const float* weights, const AdamOptions& options, std::int64_t step,
            std::int64_t count) override {
    real_->adam(stream, delta, first, second, gradient, weights, options, step, count);
  }
  void rmsprop(Stream& stream, float* delta, float* second, const float* gradient,
               const float* weights, const RmspropOptions& options, std::int64_t count) override {
    real_->rmsprop(stream, delta, second, gradient, weights, options, count);
  }
  void scale_by_trust(Stream& stream, float* update, const double* squares, float rate,
                      std::int64_t count) override {
    real_->scale_by_trust(stream, update, squares, rate, count);
  }
  void damp(Stream& stream, float* d, const DampedMatrix& matrix,
            const DampOptions& options) override {
    real_->damp(stream, d, matrix, options);
  }
  void look_ahead(Stream& stream, float* ahead, const float* weights, const float* x, float factor,
                  std::int64_t count) override {
    real_->look_ahead(stream, ahead, weights, x, factor, count);
  }
  void look_ahead_adam(Stream& stream, float* ahead, const float* weights, const float* first,
                       const float* second, const AdamOptions& options, std::int64_t step,
                       float factor, std::int64_t count) override {
    real_->look_ahead_adam(stream, ahead, weights, first, second, options, step, factor, count);
  }

 private:
  std::unique_ptr<Device> real_;
};

}  // namespace hetpipe::test
