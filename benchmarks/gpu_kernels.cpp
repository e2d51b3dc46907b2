// SPDX-License-Identifier: Apache-2.0
// Table gpu-kernels: the share of a device's memory bandwidth that layers and updates reach whose
// time is memory's. gpu_kernels [--smallest] RAW.json DEVICE PRECISION SHRINK: batches are divided
// by SHRINK.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>

#include "base/error.h"
#include "base/random.h"
#include "base/text.h"
#include "base/time.h"
#include "benchmarks/smallest.h"
#include "benchmarks/statistics.h"
#include "kernels/buffer.h"
#include "kernels/devices.h"

namespace hetpipe::bench {
namespace {

struct Groups {  // of calls that are timed together
  int count = 7;
  double seconds = 0.05;
};
constexpr std::int64_t kFlat = 64 << 20;  // elements of flat arrays
constexpr std::uint64_t kKey = 1;

// A layer, and how many bytes each way moves at least: per element of its first input (which
// Device::element_type() makes 4 or 2 bytes) and beside it. As kernels/cuda/own/ states them.
struct Case {
  std::string name;
  LayerSpec spec;
  std::vector<Shape> inputs;  // extent 0 is divided by SHRINK
  std::function<double(double elements, double type)> forward, backward;
  int tokens_below = 0;  // of the input, where it is tokens
};

std::vector<Case> cases() {
  const Shape image{256, 56, 56, 64}, wide{128, 112, 112, 64}, text{64, 1024, 768};
  const auto tensors = [](double count) {
    return [count](double e, double t) { return count * e * t; };
  };
  const double classes = 50257, features = 768;
  std::vector<Case> all{
      {"batch norm", BatchNorm{}, {image}, tensors(3), tensors(5)},
      {"layer norm", LayerNorm{}, {text}, tensors(2), tensors(5)},
      {"add", Add{}, {image, image}, tensors(3), tensors(4)},
      {"dropout",
       Dropout{0.1f},
       {text},
       [](double e, double t) { return 2 * e * t + e; },
       [](double e, double t) { return 2 * e * t + e; }},
      {"max pool 3x3, stride 2",
       MaxPool{.kernel = 3, .stride = 2, .padding = 1},
       {wide},
       [](double e, double t) { return e * t + e / 4 * (t + 1); },
       [](double e, double t) { return e * t + e / 4 * (t + 1); }},
      {"global average pool",
       GlobalAveragePool{},
       {{2048, 7, 7, 2048}},
       [](double e, double t) { return e * t * 50 / 49; },
       [](double e, double t) { return e * t * 50 / 49; }},
      {"softmax cross-entropy", SoftmaxCrossEntropy{}, {{4096, 50257}}, tensors(1), tensors(2)},
      {"embedding",
       Embedding{.vocabulary = 50257, .features = 768},
       {{64, 1024}},
       [=](double e, double t) { return e * features * (t + 4); },
       [=](double e, double t) { return e * features * t + 4 * classes * features + 40 * e; },
       50257},
      {"position embedding",
       PositionEmbedding{.positions = 1024},
       {text},
       tensors(2),
       [=](double e, double t) { return 3 * e * t + 4 * 1024 * features; }},
  };
  std::apply(
      [&]<class... Layers>(const ElementwiseRow<Layers>&... rows) {
        (all.push_back({rows.name, Layers{}, {text}, tensors(2), tensors(3)}), ...);
      },
      kElementwise);
  return all;
}

// Device memory with numbers in it.
class Values {
 public:
  Values(Device& device, Stream& stream) : device_(device), stream_(stream) {}

  Buffer memory(std::int64_t bytes) {
    return {device_, stream_, static_cast<std::size_t>(bytes), MemoryKind::workspace};
  }
  // Numbers in [0, 1), or whole ones below `whole_below`.
  Buffer of(ElementType type, std::int64_t count, int whole_below = 0) {
    std::vector<float> piece(static_cast<std::size_t>(std::min(count, kPiece)));
    for (std::size_t e = 0; e < piece.size(); ++e) {
      piece[e] = random_uniform(kKey, e);
      if (whole_below > 0) piece[e] = std::floor(piece[e] * static_cast<float>(whole_below));
    }
    const Buffer there = upload(piece);
    Buffer values = memory(count * static_cast<std::int64_t>(bytes_of(type)));
    for (std::int64_t first = 0; first < count; first += kPiece) {
      device_.convert(stream_, values.data() + static_cast<std::size_t>(first) * bytes_of(type),
                      type, there.data(), ElementType::fp32, std::min(count - first, kPiece));
    }
    return values;
  }
  template <class T>
  Buffer upload(const std::vector<T>& values) {
    Buffer there = memory(static_cast<std::int64_t>(values.size() * sizeof(T)));
    device_.copy(stream_, there.data(), reinterpret_cast<const std::byte*>(values.data()),
                 there.bytes());
    stream_.synchronize();
    return there;
  }

 private:
  static constexpr std::int64_t kPiece = 1 << 20;
  Device& device_;
  Stream& stream_;
};

// One layer's kernel and everything that it reads and writes.
class LayerRun {
 public:
  LayerRun(Device& device, Stream& stream, const Case& c, std::int64_t shrink)
      : stream_(stream), values_(device, stream) {
    for (const Shape& shape : c.inputs) {
      shapes_.push_back(shape.with_batch(std::max<std::int64_t>(1, shape[0] / shrink)));
    }
    LayerShapes s = infer_shapes(c.spec, shapes_);
    kernel_ = device.make_kernel(c.spec, shapes_, kKey);
    kernel_->adjust(s);
    const bool loss = std::holds_alternative<SoftmaxCrossEntropy>(c.spec);
    const bool tokens = c.tokens_below > 0;
    const ElementType type = device.element_type();
    const ElementType output_type = loss ? ElementType::fp32 : type;
    for (const Shape& shape : shapes_) {
      inputs_.push_back(
          keep(values_.of(tokens ? ElementType::fp32 : type, shape.elements(), c.tokens_below)));
      input_gradients_.push_back(tokens ? nullptr : keep(values_.of(type, shape.elements())));
    }
    for (const ParameterShape& p : s.parameters) {
      parameters_.push_back(keep_floats(p.shape.elements()));
      parameter_gradients_.push_back(keep_floats(p.shape.elements()));
    }
    for (const ParameterShape& p : s.statistics) {
      statistics_.push_back(keep_floats(p.shape.elements()));
    }
    const std::int64_t batch = shapes_[0][0];
    for (std::int64_t i = 0; i < batch; ++i) keys_.push_back({0, i});
    const auto labels = shapes_[0].elements() / shapes_[0][shapes_[0].rank() - 1];

    forward_.inputs = inputs_;
    forward_.parameters = parameters_;
    forward_.statistics = statistics_;
    forward_.output = keep(values_.of(output_type, s.output.elements()));
    forward_.stash = keep(values_.memory(s.stash_bytes));
    forward_.samples = keys_;
    forward_.labels = reinterpret_cast<const std::int32_t*>(
        keep(values_.upload(std::vector<std::int32_t>(static_cast<std::size_t>(labels)))));

    backward_.inputs = inputs_;
    backward_.output = forward_.output;
    if (!loss) backward_.output_gradient = keep(values_.of(type, s.output.elements()));
    backward_.parameters = parameters_;
    backward_.stash = forward_.stash;
    backward_.input_gradients = input_gradients_;
    backward_.parameter_gradients = parameter_gradients_;
    backward_.samples = keys_;
    backward_.labels = forward_.labels;
    backward_.loss_samples = batch;
  }

  void forward() { kernel_->forward(stream_, forward_); }
  void backward() { kernel_->backward(stream_, backward_); }
  const Shape& input() const { return shapes_[0]; }

 private:
  std::byte* keep(Buffer buffer) { return kept_.emplace_back(std::move(buffer)).data(); }
  float* keep_floats(std::int64_t count) {
    return reinterpret_cast<float*>(keep(values_.of(ElementType::fp32, count)));
  }

  Stream& stream_;
  Values values_;
  std::vector<Shape> shapes_;
  std::unique_ptr<LayerKernel> kernel_;
  std::vector<Buffer> kept_;
  std::vector<const std::byte*> inputs_;
  std::vector<std::byte*> input_gradients_;
  std::vector<const float*> parameters_;
  std::vector<float*> parameter_gradients_, statistics_;
  std::vector<SampleKey> keys_;
  ForwardArguments forward_;
  BackwardArguments backward_;
};

class Table {
 public:
  Table(Device& device, const std::string& raw, std::int64_t shrink, Groups groups)
      : device_(device),
        stream_(device.make_stream()),
        values_(device, *stream_),
        raw_(raw),
        shrink_(shrink),
        groups_(groups) {}

  void run() {
    const std::int64_t n = kFlat / shrink_;
    {
      const Buffer from = values_.of(ElementType::fp32, n), to = values_.memory(4 * n);
      const double seconds =
          timed("copy", [&] { device_.copy(*stream_, to.data(), from.data(), from.bytes()); });
      copy_bandwidth_ = 8 * static_cast<double>(n) / seconds;
    }
    std::printf(
        "Copy of %.0f MB inside the device's memory: %.1f GB/s, reads and writes counted.\n\n",
        4 * static_cast<double>(n) / 1e6, copy_bandwidth_ / 1e9);
    std::printf(
        "| layer | input | forward us | GB/s | of the copy | backward us | GB/s | of the copy |\n"
        "|---|---|---|---|---|---|---|---|\n");
    for (const Case& c : cases()) layer(c);
    std::printf(
        "\n| flat fp32 arrays | elements | us | GB/s | of the copy |\n|---|---|---|---|---|\n");
    flat(n);
  }

 private:
  // Seconds of a call, the median of several groups of calls.
  double timed(const std::string& name, const std::function<void()>& call) {
    const auto seconds_of = [&](int count) {
      stream_->synchronize();
      const std::int64_t start = now_ns();
      for (int i = 0; i < count; ++i) call();
      stream_->synchronize();
      return seconds_between(start, now_ns());
    };
    seconds_of(2);
    const double once = seconds_of(3) / 3;
    const int count = std::max(3, static_cast<int>(std::lround(groups_.seconds / once)));
    std::vector<double> groups;
    for (int group = 0; group < groups_.count; ++group) groups.push_back(seconds_of(count) / count);
    raw_.add(name + ", s", groups);
    return spread_of(groups).median;
  }

  std::string cells(double seconds, double bytes) const {
    return format("%.1f | %.1f | %.2f |", 1e6 * seconds, bytes / seconds / 1e9,
                  bytes / seconds / copy_bandwidth_);
  }

  void layer(const Case& c) {
    LayerRun run(device_, *stream_, c, shrink_);
    const auto elements = static_cast<double>(run.input().elements());
    const auto size = static_cast<double>(bytes_of(device_.element_type()));
    const double forward = timed(c.name + " forward", [&] { run.forward(); });
    const double backward = timed(c.name + " backward", [&] { run.backward(); });
    std::printf("| %s | %s | %s %s\n", c.name.c_str(), to_string(run.input()).c_str(),
                cells(forward, c.forward(elements, size)).c_str(),
                cells(backward, c.backward(elements, size)).c_str());
    std::fflush(stdout);
  }

  void flat(std::int64_t n) {
    const auto floats = [&] { return values_.of(ElementType::fp32, n); };
    const Buffer delta = floats(), first = floats(), second = floats(), gradient = floats(),
                 weights = floats(), sum = values_.memory(sizeof(double));
    const auto row = [&](const std::string& name, double bytes_each,
                         const std::function<void()>& call) {
      const double seconds = timed(name, call);
      std::printf("| %s | %lld | %s\n", name.c_str(), static_cast<long long>(n),
                  cells(seconds, bytes_each * static_cast<double>(n)).c_str());
      std::fflush(stdout);
    };
    // Weight decay makes the optimizers read the weights.
    row("sgd with momentum", 20, [&] {
      device_.sgd(*stream_, delta.as<float>(), first.as<float>(), gradient.as<float>(),
                  weights.as<float>(), {.momentum = 0.9f, .weight_decay = 1e-4f}, n);
    });
    row("adam", 28, [&] {
      device_.adam(*stream_, delta.as<float>(), first.as<float>(), second.as<float>(),
                   gradient.as<float>(), weights.as<float>(), {.weight_decay = 1e-4f}, 1, n);
    });
    row("rmsprop", 20, [&] {
      device_.rmsprop(*stream_, delta.as<float>(), second.as<float>(), gradient.as<float>(),
                      weights.as<float>(), {.weight_decay = 1e-4f}, n);
    });
    row("weights += change", 12,
        [&] { device_.add(*stream_, weights.as<float>(), delta.as<float>(), n); });
    row("sum of squares", 4,
        [&] { device_.sum_of_squares(*stream_, sum.as<double>(), gradient.as<float>(), n); });
    row("fp32 to bf16", 6, [&] {
      device_.convert(*stream_, delta.data(), ElementType::bf16, gradient.data(), ElementType::fp32,
                      n);
    });
  }

  Device& device_;
  std::unique_ptr<Stream> stream_;
  Values values_;
  RawValues raw_;
  std::int64_t shrink_;
  Groups groups_;
  double copy_bandwidth_ = 0;
};

}  // namespace
}  // namespace hetpipe::bench

int main(int argc, char** argv) {
  using namespace hetpipe;
  bench::Groups groups;
  if (bench::take_smallest(argc, argv)) groups = {1, 0};
  if (argc != 5) {
    std::fprintf(stderr, "usage: gpu_kernels [--smallest] RAW.json DEVICE PRECISION SHRINK\n");
    return 2;
  }
  try {
    const auto device = make_device(
        argv[2], 1, {.index = 0, .precision = precision_named(argv[3]), .plan_cache = {}});
    bench::Table(*device, argv[1], std::stoll(argv[4]), groups).run();
  } catch (const UserError& error) {
    std::fprintf(stderr, "gpu_kernels: %s\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gpu_kernels: %s\n", error.what());
    return 3;
  }
  return 0;
}
