// SPDX-License-Identifier: Apache-2.0
#include "launch/probe/measure_device.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "base/random.h"
#include "base/time.h"
#include "kernels/buffer.h"

namespace hetpipe {
namespace {

constexpr double kMemoryShare = 1.0 / 16;
constexpr int kFewest = 3;  // timed calls of a median

// Seconds of the median call, each waited for.
double median_seconds(Stream& stream, double seconds, const std::function<void()>& enqueue) {
  std::vector<double> times;
  const std::int64_t begin = now_ns();
  while (static_cast<int>(times.size()) < kFewest || seconds_between(begin, now_ns()) < seconds) {
    const std::int64_t start = now_ns();
    enqueue();
    stream.synchronize();
    times.push_back(seconds_between(start, now_ns()));
  }
  return median(std::move(times));
}

// Values as training has them: zeros would cost a card less power, and so less of its clock.
void fill_random(Device& device, Stream& stream, float* values, std::int64_t count) {
  std::vector<float> block(static_cast<std::size_t>(std::min<std::int64_t>(count, 1 << 16)));
  for (std::size_t e = 0; e < block.size(); ++e) block[e] = random_uniform(1, e) - 0.5f;
  for (std::int64_t done = 0; done < count;) {
    const auto now = std::min(count - done, static_cast<std::int64_t>(block.size()));
    device.copy(stream, reinterpret_cast<std::byte*>(values + done),
                reinterpret_cast<const std::byte*>(block.data()),
                static_cast<std::size_t>(now) * sizeof(float));
    done += now;
  }
  stream.synchronize();
}

// One product of two matrices of n rows and columns, ready to be enqueued.
class TimedProduct {
 public:
  TimedProduct(Device& device, Stream& stream, int n)
      : stream_(stream),
        kernel_(device.make_kernel(Linear{.output_features = n, .bias = false}, {Shape{n, n}}, 1)) {
    const std::int64_t elements = std::int64_t{n} * n;
    const std::size_t floats = static_cast<std::size_t>(elements) * sizeof(float);
    const std::size_t activations =
        static_cast<std::size_t>(elements) * bytes_of(device.element_type());
    weight_ = Buffer(device, stream, floats, MemoryKind::weights);
    fill_random(device, stream, weight_.as<float>(), elements);
    input_ = Buffer(device, stream, activations, MemoryKind::activations);
    device.convert(stream, input_.data(), device.element_type(), weight_.data(), ElementType::fp32,
                   elements);
    output_ = Buffer(device, stream, activations, MemoryKind::activations);
    LayerShapes shapes = infer_shapes(Linear{.output_features = n, .bias = false}, {Shape{n, n}});
    kernel_->adjust(shapes);
    stash_ = Buffer(device, stream, static_cast<std::size_t>(shapes.stash_bytes),
                    MemoryKind::activations);
  }

  void enqueue() {
    const std::array<const std::byte*, 1> inputs{input_.data()};
    const std::array<const float*, 1> parameters{weight_.as<float>()};
    kernel_->forward(stream_, {.inputs = inputs,
                               .parameters = parameters,
                               .statistics = {},
                               .output = output_.data(),
                               .stash = stash_.data(),
                               .mode = Mode::train,
                               .samples = {}});
  }

 private:
  Stream& stream_;
  std::unique_ptr<LayerKernel> kernel_;
  Buffer weight_, input_, output_, stash_;
};

// Host memory of the device's, given back.
class HostMemory {
 public:
  HostMemory(Device& device, std::size_t bytes)
      : device_(device), bytes_(bytes), memory_(device.allocate_host(bytes)) {
    std::memset(memory_, 1, bytes);  // its pages are there before anything is timed
  }
  ~HostMemory() { device_.release_host(memory_, bytes_); }
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;
  std::byte* data() const { return memory_; }

 private:
  Device& device_;
  std::size_t bytes_;
  std::byte* memory_;
};

}  // namespace

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double measure_products(Device& device, double memory, double seconds) {
  constexpr int kLeast = 256, kMost = 8192;
  const auto stream = device.make_stream();
  const auto fits = [&](int n) { return 12.0 * n * n <= memory * kMemoryShare; };
  for (int n = kLeast;; n *= 2) {
    TimedProduct product(device, *stream, n);
    product.enqueue();  // the first one chooses kernels and touches new memory
    stream->synchronize();
    const bool largest = 2 * n > kMost || !fits(2 * n);
    const double once = median_seconds(*stream, 0, [&] { product.enqueue(); });
    // The next one takes eight times as long; a fair share of the time is for the last.
    if (!largest && 8 * once * kFewest < seconds / 4) continue;
    const double time = median_seconds(*stream, seconds / 2, [&] { product.enqueue(); });
    return 2.0 * n * n * n / time;
  }
}

CopyRates measure_copies(Device& device, double memory, double seconds) {
  constexpr double kMost = 256 << 20;  // past what processors' caches hold
  const auto bytes = static_cast<std::size_t>(std::min(kMost, memory * kMemoryShare));
  const auto stream = device.make_stream();
  const Buffer from(device, *stream, bytes, MemoryKind::workspace);
  const Buffer to(device, *stream, bytes, MemoryKind::workspace);
  const HostMemory host(device, bytes);
  const auto rate = [&](std::byte* there, const std::byte* here) {
    const auto enqueue = [&] { device.copy(*stream, there, here, bytes); };
    enqueue();
    stream->synchronize();
    return static_cast<double>(bytes) / median_seconds(*stream, seconds / 3, enqueue);
  };
  CopyRates rates;
  rates.to_device = rate(from.data(), host.data());
  rates.inside = rate(to.data(), from.data());
  rates.from_device = rate(host.data(), to.data());
  return rates;
}

}  // namespace hetpipe
