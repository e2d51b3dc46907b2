// SPDX-License-Identifier: Apache-2.0
// Table cpu-kernels: forward and backward of single layers on the CPU device against PyTorch on the
// same cores. cpu_kernels [--smallest] RAW.json [--only TEXT] [PEER...]: PEER is torch_kernels.py.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/random.h"
#include "base/text.h"
#include "benchmarks/peer.h"
#include "benchmarks/smallest.h"
#include "benchmarks/statistics.h"
#include "kernels/buffer.h"
#include "kernels/devices.h"
#include "kernels/host_device.h"

namespace hetpipe::bench {
namespace {

constexpr double kGoal = 1.0;

struct Case {
  const char* name;  // torch_kernels.py knows it
  std::vector<LayerSpec> layers;
  Shape in;
};

std::vector<Case> cases() {
  const auto depthwise = [](int channels, int stride, int kernel = 3) {
    return Convolution{.output_channels = channels,
                       .kernel = kernel,
                       .stride = stride,
                       .padding = kernel / 2,
                       .bias = false,
                       .groups = channels};
  };
  const auto grouped = [](int channels, int stride) {
    return Convolution{.output_channels = channels,
                       .stride = stride,
                       .padding = 1,
                       .bias = false,
                       .groups = 32};
  };
  const auto pointwise = [](int channels) {
    return Convolution{.output_channels = channels, .kernel = 1, .bias = false};
  };
  return {
      {"depthwise 3x3, 32 of 112", {depthwise(32, 1)}, {8, 112, 112, 32}},
      {"depthwise 3x3/2, 96 of 112", {depthwise(96, 2)}, {8, 112, 112, 96}},
      {"depthwise 3x3, 144 of 56", {depthwise(144, 1)}, {8, 56, 56, 144}},
      {"depthwise 3x3/2, 144 of 56", {depthwise(144, 2)}, {8, 56, 56, 144}},
      {"depthwise 3x3, 192 of 28", {depthwise(192, 1)}, {8, 28, 28, 192}},
      {"depthwise 3x3, 384 of 14", {depthwise(384, 1)}, {8, 14, 14, 384}},
      {"depthwise 3x3, 960 of 7", {depthwise(960, 1)}, {8, 7, 7, 960}},
      {"depthwise 7x7, 96 of 56", {depthwise(96, 1, 7)}, {8, 56, 56, 96}},
      {"1x1, 16 to 96 of 112", {pointwise(96)}, {8, 112, 112, 16}},
      {"1x1, 144 to 24 of 56", {pointwise(24)}, {8, 56, 56, 144}},
      {"1x1, 64 to 384 of 14", {pointwise(384)}, {8, 14, 14, 64}},
      {"1x1, 960 to 160 of 7", {pointwise(160)}, {8, 7, 7, 960}},
      {"32 groups 3x3, 128 of 56", {grouped(128, 1)}, {4, 56, 56, 128}},
      {"32 groups 3x3/2, 256 of 56", {grouped(256, 2)}, {4, 56, 56, 256}},
      {"32 groups 3x3, 512 of 14", {grouped(512, 1)}, {4, 14, 14, 512}},
      {"32 groups 3x3, 1024 of 7", {grouped(1024, 1)}, {4, 7, 7, 1024}},
      {"3x3, 64 of 56",
       {Convolution{.output_channels = 64, .padding = 1, .bias = false}},
       {8, 56, 56, 64}},
      {"3x3/2, 128 of 56",
       {Convolution{.output_channels = 128, .stride = 2, .padding = 1, .bias = false}},
       {8, 56, 56, 128}},
      {"3x3, dilation 2, 256 of 28",
       {Convolution{.output_channels = 256, .padding = 2, .bias = false, .dilation = 2}},
       {2, 28, 28, 256}},
      {"sequence 3, 256 of 512",
       {Convolution{.output_channels = 256, .kernel = {3, 1}, .padding = {1, 0}}},
       {8, 512, 1, 256}},
      {"transposed 2x2/2, 128 to 64 of 56",
       {TransposedConvolution{.output_channels = 64}},
       {4, 56, 56, 128}},
      {"transposed 3x3/2, 128 to 64 of 28",
       {TransposedConvolution{
           .output_channels = 64, .kernel = 3, .padding = 1, .output_padding = 1}},
       {4, 28, 28, 128}},
      {"batch norm and relu, 96 of 112", {BatchNorm{}, Relu{}}, {8, 112, 112, 96}},
      {"layer norm, 768 of 197", {LayerNorm{}}, {8, 197, 768}},
      {"RMS norm, 512 of 256", {RmsNorm{}}, {8, 256, 512}},
      {"group norm 32, 256 of 28", {GroupNorm{32}}, {8, 28, 28, 256}},
      {"bilinear 2x, 128 of 28",
       {Resize{Resize::Kind::bilinear, 56, 56, 0.5, 0.5}},
       {8, 28, 28, 128}},
      {"nearest 2x, 128 of 28", {Resize{Resize::Kind::nearest, 56, 56, 0.5, 0.5}}, {8, 28, 28, 128}},
      {"max pool 3x3/2, 64 of 112",
       {MaxPool{.kernel = 3, .stride = 2, .padding = 1}},
       {8, 112, 112, 64}},
      {"max pool 2x2, 64 of 112", {MaxPool{}}, {8, 112, 112, 64}},
      {"average pool 2x2, 64 of 112", {AveragePool{}}, {8, 112, 112, 64}},
      {"average pool 1x1 adaptive, 512 of 14", {AdaptivePool{}}, {8, 14, 14, 512}},
      {"average pool 6x6 adaptive, 256 of 13", {AdaptivePool{false, 6, 6}}, {8, 13, 13, 256}},
      {"LSTM, 256 to 256, 64 tokens", {Recurrent{Recurrent::Kind::lstm, 256}}, {16, 64, 256}},
      {"GRU, 256 to 256, 64 tokens", {Recurrent{Recurrent::Kind::gru, 256}}, {16, 64, 256}},
      {"cross-entropy, 1000 of 256", {SoftmaxCrossEntropy{}}, {256, 1000}},
  };
}

// A chain of layers with all that they read and write.
class LayerRun {
 public:
  LayerRun(Device& device, const Case& c) : device_(device), stream_(device.make_stream()) {
    Shape in = c.in;
    std::byte* x = values(in.elements());
    std::byte* dx = values(in.elements());
    for (const LayerSpec& spec : c.layers) {
      const LayerShapes s = infer_shapes(spec, {in});
      Step step{device.make_kernel(spec, {in}, 1)};
      step.inputs = {x};
      step.input_gradients = {dx};
      for (const ParameterShape& p : s.parameters) {
        step.parameters.push_back(floats(values(p.shape.elements())));
        step.parameter_gradients.push_back(floats(values(p.shape.elements())));
      }
      for (const ParameterShape& p : s.statistics) {
        step.statistics.push_back(floats(values(p.shape.elements())));
      }
      step.stash = values(s.stash_bytes / 4 + 1);
      x = step.output = values(s.output.elements());
      dx = step.output_gradient = values(s.output.elements());
      step.loss = is_loss(spec);
      labels_.assign(static_cast<std::size_t>(in.elements()), 1);
      in = s.output;
      steps_.push_back(std::move(step));
    }
    samples_ = c.in[0];
  }

  void run() {
    for (Step& s : steps_) {
      ForwardArguments f;
      f.inputs = s.inputs;
      f.parameters = s.parameters;
      f.statistics = s.statistics;
      f.output = s.output;
      f.stash = s.stash;
      f.labels = labels_.data();
      s.kernel->forward(*stream_, f);
    }
    for (auto s = steps_.rbegin(); s != steps_.rend(); ++s) {
      BackwardArguments b;
      b.inputs = s->inputs;
      b.output = s->output;
      b.output_gradient = s->loss ? nullptr : s->output_gradient;
      b.parameters = s->parameters;
      b.stash = s->stash;
      b.input_gradients = s->input_gradients;
      b.parameter_gradients = s->parameter_gradients;
      b.labels = labels_.data();
      b.loss_samples = samples_;
      s->kernel->backward(*stream_, b);
    }
  }
  double seconds(int count) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < count; ++i) run();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

 private:
  struct Step {
    std::unique_ptr<LayerKernel> kernel;
    std::vector<const std::byte*> inputs = {};
    std::vector<std::byte*> input_gradients = {};
    std::vector<const float*> parameters = {};
    std::vector<float*> parameter_gradients = {}, statistics = {};
    std::byte *output = nullptr, *stash = nullptr, *output_gradient = nullptr;
    bool loss = false;
  };

  std::byte* values(std::int64_t count) {
    kept_.emplace_back(device_, *stream_, static_cast<std::size_t>(count) * sizeof(float),
                       MemoryKind::activations);
    for (std::int64_t i = 0; i < count; ++i) {
      kept_.back().as<float>()[i] = random_uniform(7, static_cast<std::uint64_t>(i % 65537)) - 0.4f;
    }
    return kept_.back().data();
  }

  Device& device_;
  std::unique_ptr<Stream> stream_;
  std::vector<Buffer> kept_;
  std::vector<Step> steps_;
  std::vector<std::int32_t> labels_;
  std::int64_t samples_ = 0;
};

double seconds(Peer& peer, const char* layout, int count) {
  peer.say(format("run %s %d", layout, count));
  return std::atof(peer.hear().c_str());
}

int count_for(double once, double turn) {
  return std::max(1, static_cast<int>(std::lround(turn / once)));
}

void measure(const Case& c, int threads, Peer& peer, RawValues& raw) {
  constexpr int kTurns = 7;
  constexpr double kTurnSeconds = 0.1;
  const auto device = make_device("cpu", threads);
  LayerRun run(*device, c);
  peer.say(std::string("layer ") + c.name);
  peer.hear();
  constexpr const char* kLayouts[] = {"plain", "last"};
  run.run();
  const int ours = count_for(run.seconds(2) / 2, kTurnSeconds);
  int theirs[2];
  for (int l = 0; l < 2; ++l) {
    seconds(peer, kLayouts[l], 1);
    theirs[l] = count_for(seconds(peer, kLayouts[l], 2) / 2, kTurnSeconds);
  }
  std::vector<double> own, other[2];
  for (int turn = 0; turn < kTurns; ++turn) {
    own.push_back(run.seconds(ours) / ours);
    for (int l = 0; l < 2; ++l) {
      other[l].push_back(seconds(peer, kLayouts[l], theirs[l]) / theirs[l]);
    }
  }
  const double a = spread_of(own).median;
  const double plain = spread_of(other[0]).median, last = spread_of(other[1]).median;
  const std::string name = format("%s, %d thread%s", c.name, threads, threads == 1 ? "" : "s");
  const double ratio = spread_of(ratios(own, plain < last ? other[0] : other[1])).median;
  std::printf("| %s | %.3f | %.3f | %.3f | %.2f | %s |\n", name.c_str(), a * 1e3, plain * 1e3,
              last * 1e3, ratio, ratio <= kGoal ? "yes" : "no");
  std::fflush(stdout);
  raw.add(name + ", hetpipe, s", own);
  raw.add(name + ", PyTorch, s", other[0]);
  raw.add(name + ", PyTorch channels last, s", other[1]);
}

int run(int argc, char** argv) {
  const bool smallest = take_smallest(argc, argv);
  if (argc < 2) {
    std::fprintf(stderr, "usage: cpu_kernels [--smallest] RAW.json [--only TEXT] [PEER...]\n");
    return 2;
  }
  int next = 2;
  const char* only = "";
  if (argc > 3 && std::strcmp(argv[2], "--only") == 0) {
    only = argv[3];
    next = 4;
  }
  RawValues raw(argv[1]);
  std::printf(
      "Forward and backward of a layer, in ms: medians of turns of 0.1 s, all in turns. PyTorch "
      "eager, its tensors in its usual layout and channels last; the ratio is to the faster; the "
      "goal is at most %.1f.\n\n| layer | hetpipe | PyTorch | channels last | ratio | goal |\n"
      "|---|---|---|---|---|---|\n",
      kGoal);
  if (smallest) {  // once, of one sample
    for (Case c : cases()) {
      c.in[0] = 1;
      const auto device = make_device("cpu", 1);
      LayerRun(*device, c).run();
      std::printf("| %s | | | | | |\n", c.name);
    }
    return 0;
  }
  for (const int threads : {1, 2}) {
    std::vector<std::string> command(argv + next, argv + argc);
    command.push_back(std::to_string(threads));
    Peer peer(command);
    for (const Case& c : cases()) {
      if (std::strstr(c.name, only) != nullptr) measure(c, threads, peer, raw);
    }
  }
  return 0;
}

}  // namespace
}  // namespace hetpipe::bench

int main(int argc, char** argv) { return hetpipe::bench::run(argc, argv); }
