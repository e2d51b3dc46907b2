// SPDX-License-Identifier: Apache-2.0
#include "kernels/offload/offload_device.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "kernels/cpu/cpu_device.h"
#include "kernels/host_device.h"
#include "kernels/offload/far_memory.h"
#include "kernels/offload/thread_stream.h"
#include "kernels/size_class.h"

namespace hetpipe {
namespace {

constexpr std::size_t kFarAlignment = 256;

std::size_t class_of(std::size_t bytes) { return size_class(bytes, kFarAlignment); }

class OffloadDevice final : public Device {
 public:
  OffloadDevice(int threads, Precision precision)
      : cpu_(make_cpu_device(threads)), host_(make_inline_stream()), precision_(precision) {}

  const std::string& kind() const override { return kind_; }
  std::string description() const override {
    return "offload device, " + to_string(precision_) + ", of the " + cpu_->description();
  }
  std::unique_ptr<Stream> make_stream() override { return std::make_unique<ThreadStream>(); }
  Precision precision() const override { return precision_; }
  MemoryAccount& memory() override { return account_; }
  bool host_memory() const override { return false; }
  std::unique_ptr<PeerMemory> make_peer_memory() { return make_far_peer_memory(memory_, account_); }

  // A block is free for the stream that gave it back at once, and overwritten in its order: who
  // uses it on another stream without waiting is found.
  std::byte* allocate(Stream& stream, std::size_t bytes, MemoryKind kind) override {
    account_.take(bytes, kind);
    std::vector<std::byte*>& blocks = free_[{&stream, class_of(bytes)}];
    if (!blocks.empty()) {
      std::byte* const block = blocks.back();
      blocks.pop_back();
      return block;
    }
    std::byte* const block = memory_.take(class_of(bytes));
    if (block == nullptr) {
      account_.give_back(bytes, kind);
      throw OutOfMemory(format("offload device: no %s of memory left for %s. In use:\n%s",
                               format_bytes(static_cast<double>(bytes)).c_str(), to_string(kind),
                               account_.ledger().c_str()));
    }
    return block;
  }
  void release(Stream& stream, std::byte* block, std::size_t bytes,
               MemoryKind kind) noexcept override {
    on(stream, [near = memory_.near(block), bytes] { std::memset(near, 0xff, bytes); });
    free_[{&stream, class_of(bytes)}].push_back(block);
    account_.give_back(bytes, kind);
  }
  std::byte* allocate_host(std::size_t bytes) override { return cpu_->allocate_host(bytes); }
  void release_host(std::byte* memory, std::size_t bytes) noexcept override {
    cpu_->release_host(memory, bytes);
  }

  void copy(Stream& stream, std::byte* to, const std::byte* from, std::size_t bytes) override {
    on(stream, [to = memory_.near(to), from = memory_.near(from), bytes] {
      if (bytes != 0) std::memcpy(to, from, bytes);
    });
  }
  std::unique_ptr<LayerKernel> make_kernel(const LayerSpec& spec, const std::vector<Shape>& inputs,
                                           std::uint64_t key) override {
    return make_offload_kernel(cpu_->make_kernel(spec, inputs, key), spec, inputs, element_type(),
                               memory_, *host_);
  }

  void accumulate(Stream& stream, std::byte* y, const std::byte* x, std::int64_t count) override {
    on(stream, [this, y = memory_.near(y), x = memory_.near(x), count] {
      std::vector<float> sum(static_cast<std::size_t>(count)), term(sum.size());
      convert_elements(activations(sum.data()), ElementType::fp32, y, element_type(), count);
      convert_elements(activations(term.data()), ElementType::fp32, x, element_type(), count);
      cpu_->add(*host_, sum.data(), term.data(), count);
      convert_elements(y, element_type(), activations(sum.data()), ElementType::fp32, count);
    });
  }
  void convert(Stream& stream, std::byte* to, ElementType to_type, const std::byte* from,
               ElementType from_type, std::int64_t count) override {
    on(stream, [=, to = memory_.near(to), from = memory_.near(from)] {
      convert_elements(to, to_type, from, from_type, count);
    });
  }
  void unpack(Stream& stream, std::byte* to, ElementType to_type, const std::byte* from,
              SampleType from_type, std::int64_t count, const PixelScale& scale) override {
    on(stream, [=, to = memory_.near(to), from = memory_.near(from)] {
      unpack_elements(to, to_type, from, from_type, count, scale);
    });
  }

  void fill(Stream& stream, float* x, float value, std::int64_t count) override {
    on(stream, [=, this, x = memory_.near(x)] { cpu_->fill(*host_, x, value, count); });
  }
  void add(Stream& stream, float* y, const float* x, std::int64_t count) override {
    on(stream,
       [=, this, y = memory_.near(y), x = memory_.near(x)] { cpu_->add(*host_, y, x, count); });
  }
  void sum(Stream& stream, float* z, const float* x, const float* y, std::int64_t count) override {
    on(stream, [=, this, z = memory_.near(z), x = memory_.near(x), y = memory_.near(y)] {
      cpu_->sum(*host_, z, x, y, count);
    });
  }
  void scale(Stream& stream, float* y, float factor, std::int64_t count) override {
    on(stream, [=, this, y = memory_.near(y)] { cpu_->scale(*host_, y, factor, count); });
  }
  void sum_of_squares(Stream& stream, double* sum, const float* x, std::int64_t count) override {
    on(stream, [=, this, sum = memory_.near(sum), x = memory_.near(x)] {
      cpu_->sum_of_squares(*host_, sum, x, count);
    });
  }
  void limit_norm(Stream& stream, float* y, const double* squares, std::int64_t parts,
                  double max_norm, std::int64_t count) override {
    on(stream, [=, this, y = memory_.near(y), squares = memory_.near(squares)] {
      cpu_->limit_norm(*host_, y, squares, parts, max_norm, count);
    });
  }
  void sgd(Stream& stream, float* delta, float* velocity, const float* gradient,
           const float* weights, const SgdOptions& options, std::int64_t count) override {
    on(stream, [=, this, delta = memory_.near(delta), velocity = memory_.near(velocity),
                gradient = memory_.near(gradient), weights = memory_.near(weights)] {
      cpu_->sgd(*host_, delta, velocity, gradient, weights, options, count);
    });
  }
  void adam(Stream& stream, float* delta, float* first, float* second, const float* gradient,
            const float* weights, const AdamOptions& options, std::int64_t step,
            std::int64_t count) override {
    on(stream, [=, this, delta = memory_.near(delta), first = memory_.near(first),
                second = memory_.near(second), gradient = memory_.near(gradient),
                weights = memory_.near(weights)] {
      cpu_->adam(*host_, delta, first, second, gradient, weights, options, step, count);
    });
  }
  void rmsprop(Stream& stream, float* delta, float* second, const float* gradient,
               const float* weights, const RmspropOptions& options, std::int64_t count) override {
    on(stream, [=, this, delta = memory_.near(delta), second = memory_.near(second),
                gradient = memory_.near(gradient), weights = memory_.near(weights)] {
      cpu_->rmsprop(*host_, delta, second, gradient, weights, options, count);
    });
  }
  void scale_by_trust(Stream& stream, float* update, const double* squares, float rate,
                      std::int64_t count) override {
    on(stream, [=, this, update = memory_.near(update), squares = memory_.near(squares)] {
      cpu_->scale_by_trust(*host_, update, squares, rate, count);
    });
  }
  void damp(Stream& stream, float* d, const DampedMatrix& matrix,
            const DampOptions& options) override {
    on(stream, [=, this, d = memory_.near(d)] { cpu_->damp(*host_, d, matrix, options); });
  }
  void look_ahead(Stream& stream, float* ahead, const float* weights, const float* x, float factor,
                  std::int64_t count) override {
    on(stream,
       [=, this, ahead = memory_.near(ahead), weights = memory_.near(weights),
        x = memory_.near(x)] { cpu_->look_ahead(*host_, ahead, weights, x, factor, count); });
  }
  void look_ahead_adam(Stream& stream, float* ahead, const float* weights, const float* first,
                       const float* second, const AdamOptions& options, std::int64_t step,
                       float factor, std::int64_t count) override {
    on(stream, [=, this, ahead = memory_.near(ahead), weights = memory_.near(weights),
                first = memory_.near(first), second = memory_.near(second)] {
      cpu_->look_ahead_adam(*host_, ahead, weights, first, second, options, step, factor, count);
    });
  }

 private:
  static void on(Stream& stream, std::function<void()> work) {
    dynamic_cast<ThreadStream&>(stream).enqueue(std::move(work));
  }

  std::string kind_ = "offload";
  std::unique_ptr<Device> cpu_;
  std::unique_ptr<Stream> host_;
  Precision precision_;
  FarMemory memory_;
  MemoryAccount account_;
  std::map<std::pair<Stream*, std::size_t>, std::vector<std::byte*>> free_;
};

}  // namespace

std::unique_ptr<PeerMemory> make_offload_peer_memory(Device& device) {
  return dynamic_cast<OffloadDevice&>(device).make_peer_memory();
}

std::unique_ptr<Device> make_offload_device(int threads, Precision precision) {
  if (precision == Precision::tf32) {
    throw UserError(
        "--precision tf32",
        "is not supported by device 'offload' (it computes in fp32 and rounds). Give fp32, "
        "bf16 or fp16.");
  }
  return std::make_unique<OffloadDevice>(threads, precision);
}

}  // namespace hetpipe
