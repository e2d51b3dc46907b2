// SPDX-License-Identifier: Apache-2.0
// Table cpu-layers: layers of kernels/algebra.h, forward and backward, against PyTorch's eager mode
// on the same cores. cpu_layers [--smallest] RAW.json THREADS [PEER...]: PEER is
// torch_layers.py.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "base/error.h"
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
  std::string name;  // as in torch_layers.py
  LayerSpec spec;
  std::vector<Shape> inputs;
};

using Extents = std::vector<std::int64_t>;

Operand input(int index, Extents strides, std::int64_t offset = 0) {
  return {Source::input, index, offset, std::move(strides)};
}

// One expression over whole tensors.
Pointwise whole(Expression e, int operands, std::int64_t elements) {
  Pointwise p{std::move(e), {}, {elements}};
  for (int i = 0; i < operands; ++i) p.operands.push_back(input(i, {1}));
  return p;
}
Expression unary(std::string_view op) {
  Expression e;
  e.apply(op, {e.variable(0)});
  return e;
}
Expression binary(std::string_view op) {
  Expression e;
  const int a = e.variable(0), b = e.variable(1);
  e.apply(op, {a, b});
  return e;
}
Expression gated() {
  Expression e;
  const int a = e.variable(0), b = e.variable(1);
  e.apply("mul", {e.apply("silu", {a}), b});
  return e;
}
Expression gelu_in_parts() {
  Expression e;
  const int x = e.variable(0);
  const int cube = e.apply("pow", {x, e.number(3)});
  const int inner = e.apply("add", {x, e.apply("mul", {e.number(0.044715f), cube})});
  const int tanh = e.apply("tanh", {e.apply("mul", {e.number(0.7978845608f), inner})});
  e.apply("mul", {e.apply("mul", {e.number(0.5f), x}), e.apply("add", {e.number(1), tanh})});
  return e;
}
ConstantTable<float> numbers(std::int64_t count) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i) {
    values.push_back(random_normal(7, static_cast<std::uint64_t>(i)));
  }
  return ConstantTable(std::move(values));
}

// Elements of both halves, the second with the sign in the table of sines.
Pointwise rotary(std::int64_t tokens, std::int64_t heads, std::int64_t features) {
  Expression e;
  const int x = e.variable(0), other = e.variable(1), cosine = e.variable(2), sine = e.variable(3);
  e.apply("add", {e.apply("mul", {x, cosine}), e.apply("mul", {other, sine})});
  const std::int64_t half = features / 2;
  return {e,
          {input(0, {heads * features, features, half, 1}),
           input(0, {heads * features, features, -half, 1}, half),
           {Source::constant, 0, 0, {features, 0, half, 1}},
           {Source::constant, 1, 0, {features, 0, half, 1}}},
          {tokens, heads, 2, half},
          {},
          {numbers(tokens * features), numbers(tokens * features)}};
}

Case attention(const char* name, std::int64_t n, int heads, std::int64_t tokens,
               std::int64_t features, bool causal) {
  const std::int64_t width = heads * features;
  Attention a;
  a.heads = a.kv_heads = heads;
  a.queries = a.keys = tokens;
  a.features = a.value_features = features;
  a.query = input(0, {features, 3 * width, 1});
  a.key = input(0, {features, 3 * width, 1}, width);
  a.value = input(0, {features, 3 * width, 1}, 2 * width);
  a.causal = causal;
  a.scale = 0.125f;
  return {name, a, {{n, tokens, 3 * width}}};
}

std::vector<Case> cases() {
  const Shape text{8, 197, 768}, image{8, 56, 56, 96};
  const std::int64_t of_text = 197 * 768, pixels = 56 * 56;
  std::vector<Case> all;
  for (const auto& [name, op] : {std::pair{"gelu", "gelu"},
                                 {"gelu, tanh", "gelu_tanh"},
                                 {"silu", "silu"},
                                 {"hardswish", "hardswish"},
                                 {"mish", "mish"}}) {
    all.push_back({name, whole(unary(op), 1, of_text), {text}});
  }
  all.push_back({"sum of two", whole(binary("add"), 2, of_text), {text, text}});
  all.push_back({"silu(a) * b", whole(gated(), 2, of_text), {text, text}});
  all.push_back({"GPT-2's gelu in its parts", whole(gelu_in_parts(), 1, of_text), {text}});
  all.push_back({"layer scale",
                 Pointwise{binary("mul"),
                           {input(0, {768, 1}), {Source::parameter, 0, 0, {0, 1}}},
                           {197, 768},
                           {{"gamma", {768}, Initial::one, 0}}},
                 {text}});
  all.push_back({"squeeze and excite",
                 Pointwise{binary("mul"), {input(0, {96, 1}), input(1, {0, 1})}, {pixels, 96}},
                 {image, {8, 96}}});
  all.push_back({"rotary embedding", rotary(256, 8, 64), {{8, 256, 8, 64}}});
  all.push_back(attention("attention, ViT-B/16", 8, 12, 197, 64, false));
  all.push_back(attention("attention, GPT-2 of width 256", 8, 8, 256, 32, true));
  all.push_back({"channels last to first",
                 Move{{96, 56, 56}, {{{96, pixels}, input(0, {1, 96}), 0, {pixels, 1}}}},
                 {image}});
  all.push_back(
      {"heads before tokens",
       Move{{12, 197, 64}, {{{12, 197, 64}, input(0, {64, 768, 1}), 0, {197 * 64, 64, 1}}}},
       {{8, 197, 12, 64}}});
  all.push_back({"one token of all", Move{{768}, {{{768}, input(0, {1}), 0, {1}}}}, {text}});
  const std::int64_t row = 56 * 96;
  all.push_back({"roll",
                 Move{{56, 56, 96},
                      {{{53, 53, 96}, input(0, {row, 96, 1}, 3 * row + 3 * 96), 0, {row, 96, 1}},
                       {{53, 3, 96}, input(0, {row, 96, 1}, 3 * row), 53 * 96, {row, 96, 1}},
                       {{3, 53, 96}, input(0, {row, 96, 1}, 3 * 96), 53 * row, {row, 96, 1}},
                       {{3, 3, 96}, input(0, {row, 96, 1}), 53 * row + 53 * 96, {row, 96, 1}}}},
                 {image}});
  all.push_back({"side by side",
                 Move{{pixels, 160},
                      {{{pixels, 64}, input(0, {64, 1}), 0, {160, 1}},
                       {{pixels, 96}, input(1, {96, 1}), 64, {160, 1}}}},
                 {{8, 56, 56, 64}, image}});
  all.push_back({"mean of the last extent",
                 Reduce{Reduce::Kind::mean, input(0, {768, 1}), {197}, {768}},
                 {text}});
  all.push_back(
      {"mean over pixels", Reduce{Reduce::Kind::mean, input(0, {1, 96}), {96}, {pixels}}, {image}});
  all.push_back({"maximum of the last extent",
                 Reduce{Reduce::Kind::maximum, input(0, {768, 1}), {197}, {768}},
                 {text}});
  all.push_back({"softmax", Softmax{}, {{8, 12 * 197, 197}}});
  all.push_back({"log softmax", Softmax{true}, {{8, 256, 1000}}});
  all.push_back({"cumulative sum", CumulativeSum{}, {text}});
  all.push_back(
      {"batched product",
       Product{input(0, {197 * 64, 64, 1}), input(1, {64 * 197, 197, 1}), {12}, 197, 197, 64},
       {{8, 12, 197, 64}, {8, 12, 64, 197}}});
  return all;
}

// A layer with numbers in all it reads, in the device's memory; forward and backward.
class Layer {
 public:
  Layer(Device& device, const Case& c)
      : device_(device),
        stream_(device.make_stream()),
        shapes_(infer_shapes(c.spec, c.inputs)),
        kernel_(device.make_kernel(c.spec, c.inputs, 1)) {
    kernel_->adjust(shapes_);
    for (const Shape& in : c.inputs) {
      given_.push_back(values(in.elements()));
      wanted_.push_back(memory(in.elements() * 4));
    }
    for (const ParameterShape& p : shapes_.parameters) {
      weights_.push_back(floats(values(p.shape.elements())));
      wanted_weights_.push_back(floats(memory(p.shape.elements() * 4)));
    }
    output_gradient_ = values(shapes_.output.elements());
    output_ = memory(shapes_.output.elements() * 4);
    stash_ = memory(shapes_.stash_bytes);
    samples_.resize(static_cast<std::size_t>(c.inputs[0][0]));
  }

  double seconds(int count) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < count; ++i) {
      ForwardArguments f;
      f.inputs = given_;
      f.parameters = weights_;
      f.output = output_;
      f.stash = stash_;
      f.samples = samples_;
      kernel_->forward(*stream_, f);
      BackwardArguments b;
      b.inputs = given_;
      b.output = output_;
      b.output_gradient = output_gradient_;
      b.parameters = weights_;
      b.stash = stash_;
      b.input_gradients = wanted_;
      b.parameter_gradients = wanted_weights_;
      b.samples = samples_;
      kernel_->backward(*stream_, b);
    }
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

 private:
  std::byte* memory(std::int64_t bytes) {
    memory_.emplace_back(device_, *stream_,
                         static_cast<std::size_t>(std::max(bytes, std::int64_t{64})),
                         MemoryKind::workspace);
    return memory_.back().data();
  }
  std::byte* values(std::int64_t count) {
    std::byte* const there = memory(count * 4);
    for (std::int64_t i = 0; i < count; ++i) {
      floats(there)[i] = random_normal(memory_.size(), static_cast<std::uint64_t>(i));
    }
    return there;
  }

  Device& device_;
  std::unique_ptr<Stream> stream_;
  LayerShapes shapes_;
  std::unique_ptr<LayerKernel> kernel_;
  std::vector<Buffer> memory_;
  std::vector<SampleKey> samples_;
  std::vector<const std::byte*> given_;
  std::vector<std::byte*> wanted_;
  std::vector<const float*> weights_;
  std::vector<float*> wanted_weights_;
  std::byte *output_ = nullptr, *output_gradient_ = nullptr, *stash_ = nullptr;
};

double seconds_of(Peer& peer, int count) {
  peer.say(format("run %d", count));
  return std::stod(peer.hear());
}

struct Extent {
  std::size_t most_cases = 1000;
  int pairs = 9;
  double turn_seconds = 0.1;
};

void run(const Extent& extent, const std::string& raw_path, int threads,
         std::vector<std::string> command) {
  const std::unique_ptr<Device> device = make_device("cpu", threads);
  std::unique_ptr<Peer> peer;
  command.push_back(std::to_string(threads));
  const bool alone = command.size() == 1;
  if (!alone) {
    peer = std::make_unique<Peer>(command);
    peer->hear();
  }
  RawValues raw(raw_path);
  std::printf("| layer, %d thread%s | hetpipe ms | PyTorch ms | hetpipe / PyTorch | goal met |\n",
              threads, threads == 1 ? "" : "s");
  std::printf("|---|---|---|---|---|\n");
  std::size_t done = 0, met = 0;
  for (const Case& c : cases()) {
    if (done == extent.most_cases) break;
    Layer layer(*device, c);
    if (!alone) {
      peer->say("case " + c.name);
      peer->hear();
      seconds_of(*peer, 2);
    }
    layer.seconds(2);
    const double once = layer.seconds(1);
    const int count = std::max(1, static_cast<int>(extent.turn_seconds / once));
    std::vector<double> ours, theirs;
    for (int pair = 0; pair < extent.pairs; ++pair) {
      ours.push_back(layer.seconds(count) / count);
      theirs.push_back(alone ? ours.back() : seconds_of(*peer, count) / count);
    }
    const Spread ratio = spread_of(ratios(ours, theirs));
    std::printf("| %s | %s | %s | %s | %s |\n", c.name.c_str(),
                to_string(spread_of(ours), "%.2f", 1e3).c_str(),
                to_string(spread_of(theirs), "%.2f", 1e3).c_str(), to_string(ratio, "%.3f").c_str(),
                ratio.median <= kGoal ? "yes" : "no");
    std::fflush(stdout);
    raw.add(c.name + ", hetpipe, s", ours);
    raw.add(c.name + ", PyTorch, s", theirs);
    ++done;
    if (ratio.median <= kGoal) ++met;
  }
  std::printf("\n%zu of %zu rows meet the goal.\n\n", met, done);
}

}  // namespace
}  // namespace hetpipe::bench

int main(int argc, char** argv) {
  using namespace hetpipe;
  const bool trial = bench::take_smallest(argc, argv);
  const bench::Extent extent = trial ? bench::Extent{2, 1, 0} : bench::Extent{};
  if (argc < 2) {
    std::fprintf(stderr, "usage: cpu_layers [--smallest] RAW.json THREADS [PEER...]\n");
    return 2;
  }
  try {
    bench::run(
        extent, argv[1], argc > 2 ? std::atoi(argv[2]) : 1,
        argc > 3 ? std::vector<std::string>{argv + 3, argv + argc} : std::vector<std::string>{});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "cpu_layers: %s\n", error.what());
    return 3;
  }
  return 0;
}
