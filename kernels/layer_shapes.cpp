// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <stdexcept>

#include "base/text.h"
#include "kernels/algebra_shapes.h"
#include "kernels/layer.h"
#include "kernels/window.h"

namespace hetpipe {
namespace {

constexpr std::int64_t kFloatBytes = sizeof(float);

[[noreturn]] void refuse(const std::string& layer, const std::string& problem) {
  throw std::invalid_argument(layer + ": " + problem);
}

void check_image(const std::string& layer, const Shape& input) {
  if (input.rank() != 4) {
    refuse(layer, "input " + to_string(input) + " is not (N, H, W, C)");
  }
}

void check_rows(const std::string& layer, const Shape& input, const char* hint) {
  if (input.rank() != 2 && input.rank() != 3) {
    refuse(layer,
           "input " + to_string(input) + " is neither (N, features) nor (N, T, features)" + hint);
  }
}

void check_last_extent(const std::string& layer, const Shape& input) {
  if (input.rank() < 2) refuse(layer, "input " + to_string(input) + " is not (N, ..., features)");
}

void check_sequence(const std::string& layer, const Shape& input) {
  if (input.rank() != 3) {
    refuse(layer, "input " + to_string(input) + " is not (N, T, features)");
  }
}

void check_side(const std::string& layer, const WindowSide& side) {
  if (side.kernel < 1) refuse(layer, format("kernel %d is not positive", int(side.kernel)));
  if (side.stride < 1) refuse(layer, format("stride %d is not positive", int(side.stride)));
  if (side.dilation < 1) refuse(layer, format("dilation %d is not positive", int(side.dilation)));
  for (const std::int64_t padding : {side.padding, side.padding_end}) {
    if (padding < 0) refuse(layer, format("padding %d is negative", int(padding)));
  }
}

void check_groups(const std::string& layer, int groups, std::int64_t inputs, std::int64_t outputs) {
  if (groups < 1) refuse(layer, format("%d groups are not positive", groups));
  if (inputs % groups != 0 || outputs % groups != 0) {
    refuse(layer, format("%d groups do not divide %d input and %d output channels", groups,
                         int(inputs), int(outputs)));
  }
}

void check_epsilon(const std::string& layer, float epsilon) {
  if (!(epsilon > 0)) refuse(layer, format("epsilon %g is not positive", double(epsilon)));
}

void check_window(const std::string& layer, const Window& window, const Shape& input) {
  check_side(layer, window.rows);
  check_side(layer, window.columns);
  if (window.rows.positions(input[1]) < 1 || window.columns.positions(input[2]) < 1) {
    const bool square = window.rows.padding == window.columns.padding;
    refuse(layer, format("a window of %dx%d does not fit into the input ", int(window.rows.kernel),
                         int(window.columns.kernel)) +
                      to_string(input) + format(" with padding %d", int(window.rows.padding)) +
                      (square ? "" : format("x%d", int(window.columns.padding))));
  }
}

// More padding than half a window would leave windows that see no image at all.
void check_pool(const std::string& layer, const Window& window, const Shape& input) {
  check_image(layer, input);
  check_window(layer, window, input);
  const auto check = [&](const WindowSide& side, std::int64_t extent) {
    if (2 * side.padding > side.span()) {
      refuse(layer, format("padding %d is more than half the kernel %d", int(side.padding),
                           int(side.span())));
    }
    for (std::int64_t p = 0; p < side.positions(extent); ++p) {
      if (side.begin(p) < side.end(p, extent)) continue;
      refuse(layer,
             format("the window at %d sees nothing of the input ", int(p)) + to_string(input));
    }
  };
  check(window.rows, input[1]);
  check(window.columns, input[2]);
}

ParameterShape he_weight(const Shape& shape, std::int64_t fan_in) {
  return {"weight", shape, Initial::uniform,
          static_cast<float>(std::sqrt(6.0 / static_cast<double>(fan_in)))};
}

ParameterShape normal_weight(const Shape& shape, float deviation) {
  return {"weight", shape, Initial::normal, deviation};
}

void check_deviation(const std::string& layer, float deviation) {
  if (!(deviation >= 0)) refuse(layer, format("deviation %g is negative", double(deviation)));
}

Shape with_features(const Shape& in, std::int64_t features) {
  Shape out = in;
  out[in.rank() - 1] = features;
  return out;
}

LayerShapes shapes_of(const Convolution& c, const std::string& layer, const Shape& in) {
  check_image(layer, in);
  const Window window = window_of(c);
  check_window(layer, window, in);
  if (c.output_channels < 1) {
    refuse(layer, format("%d output channels are not positive", c.output_channels));
  }
  check_groups(layer, c.groups, in[3], c.output_channels);
  const std::int64_t inputs = in[3] / c.groups;  // of each output
  const std::int64_t fan_in = inputs * window.taps();
  LayerShapes s;
  s.output = window.output(in, c.output_channels);
  s.parameters.push_back(
      he_weight({c.output_channels, inputs, c.kernel.rows, c.kernel.columns}, fan_in));
  if (c.bias) s.parameters.push_back({"bias", {c.output_channels}});
  s.forward_flops = 2.0 * static_cast<double>(s.output.elements()) * static_cast<double>(fan_in);
  s.backward_flops = 2 * s.forward_flops;
  s.backward_needs_input = true;
  return s;
}

LayerShapes shapes_of(const Linear& l, const std::string& layer, const Shape& in) {
  check_rows(layer, in, "; a flatten or global average pool belongs before it");
  if (l.output_features < 1) {
    refuse(layer, format("%d output features are not positive", l.output_features));
  }
  check_deviation(layer, l.deviation);
  const std::int64_t features = in[in.rank() - 1];
  LayerShapes s;
  s.output = with_features(in, l.output_features);
  const Shape weight =
      l.transposed ? Shape{l.output_features, features} : Shape{features, l.output_features};
  s.parameters.push_back(l.deviation > 0 ? normal_weight(weight, l.deviation)
                                         : he_weight(weight, features));
  if (l.bias) s.parameters.push_back({"bias", {l.output_features}});
  s.forward_flops = 2.0 * static_cast<double>(s.output.elements()) * static_cast<double>(features);
  s.backward_flops = 2 * s.forward_flops;
  s.backward_needs_input = true;
  return s;
}

LayerShapes shapes_of(const BatchNorm& b, const std::string& layer, const Shape& in) {
  if (in.rank() < 2 || in.rank() > 4) {
    refuse(layer, "input " + to_string(in) +
                      " is neither (N, H, W, C) nor (N, T, features) nor (N, features)");
  }
  check_epsilon(layer, b.epsilon);
  if (!(b.momentum >= 0 && b.momentum <= 1)) {
    refuse(layer, format("momentum %g is not in [0, 1]", double(b.momentum)));
  }
  const std::int64_t channels = in[in.rank() - 1];
  LayerShapes s;
  s.output = in;
  if (b.affine) {
    s.parameters = {{"scale", {channels}, Initial::one}, {"shift", {channels}, Initial::zero}};
  }
  if (b.tracked) {
    s.statistics = {{"mean", {channels}, Initial::zero}, {"variance", {channels}, Initial::one}};
  }
  s.stash_bytes = 2 * channels * kFloatBytes;  // the batch's mean and variance
  s.forward_flops = 7.0 * static_cast<double>(in.elements());
  s.backward_flops = 11.0 * static_cast<double>(in.elements());
  s.backward_needs_input = true;
  s.backward_in_place = true;
  return s;
}

template <Elementwise Layer>
LayerShapes shapes_of(const Layer&, const std::string&, const Shape& in) {
  constexpr ElementwiseRow<Layer> kRow = row_of<Layer>();
  LayerShapes s;
  s.output = in;
  s.forward_flops = kRow.forward_flops * static_cast<double>(in.elements());
  s.backward_flops = kRow.backward_flops * static_cast<double>(in.elements());
  s.backward_needs_input = kRow.backward_reads == BackwardReads::input;
  s.backward_needs_output = kRow.backward_reads == BackwardReads::output;
  s.forward_in_place = !s.backward_needs_input;
  s.backward_in_place = true;
  return s;
}

LayerShapes shapes_of(const MaxPool& p, const std::string& layer, const Shape& in) {
  check_pool(layer, window_of(p), in);
  if (window_of(p).taps() > 256) {
    refuse(layer, format("kernel %dx%d has more than 256 places", p.kernel.rows, p.kernel.columns));
  }
  LayerShapes s;
  s.output = window_of(p).output(in, in[3]);
  s.stash_bytes = s.output.elements();  // the winner's place in its window, one byte each
  s.forward_flops = s.backward_flops =
      static_cast<double>(s.output.elements()) * static_cast<double>(window_of(p).taps());
  return s;
}

LayerShapes shapes_of(const AveragePool& p, const std::string& layer, const Shape& in) {
  check_pool(layer, window_of(p), in);
  LayerShapes s;
  s.output = window_of(p).output(in, in[3]);
  s.forward_flops = s.backward_flops =
      static_cast<double>(s.output.elements()) * static_cast<double>(window_of(p).taps());
  return s;
}

LayerShapes shapes_of(const GlobalAveragePool&, const std::string& layer, const Shape& in) {
  check_image(layer, in);
  LayerShapes s;
  s.output = {in[0], in[3]};
  s.forward_flops = s.backward_flops = static_cast<double>(in.elements());
  return s;
}

LayerShapes shapes_of(const Flatten&, const std::string& layer, const Shape& in) {
  check_image(layer, in);
  LayerShapes s;
  s.output = {in[0], in[1] * in[2] * in[3]};
  return s;
}

LayerShapes shapes_of(const Dropout& d, const std::string& layer, const Shape& in) {
  if (d.draws < 0 || (d.draws > 0 && in.elements() / in[0] % d.draws != 0)) {
    refuse(layer, format("%d draws for input ", d.draws) + to_string(in));
  }
  if (!(d.rate >= 0 && d.rate < 1)) {
    refuse(layer, format("rate %g is not in [0, 1)", double(d.rate)));
  }
  LayerShapes s;
  s.output = in;
  s.stash_bytes = in.elements();  // kept or not, one byte each
  s.forward_flops = s.backward_flops = static_cast<double>(in.elements());
  s.forward_in_place = s.backward_in_place = true;
  return s;
}

LayerShapes shapes_of(const AlphaDropout& d, const std::string& layer, const Shape& in) {
  LayerShapes s = shapes_of(Dropout{d.rate}, layer, in);
  s.forward_flops = 2.0 * static_cast<double>(in.elements());
  return s;
}

LayerShapes shapes_of(const Shift& shift, const std::string& layer, const Shape& in) {
  check_image(layer, in);
  if (shift.rows < 0 || shift.columns < 0) refuse(layer, "a shift is not negative");
  LayerShapes s;
  s.output = in;
  return s;
}

LayerShapes shapes_of(const SoftmaxCrossEntropy& l, const std::string& layer, const Shape& in) {
  check_rows(layer, in, "");
  if (!(l.smoothing >= 0 && l.smoothing < 1)) {
    refuse(layer, format("smoothing %g is not in [0, 1)", double(l.smoothing)));
  }
  const std::int64_t tokens = in.rank() == 3 ? in[1] : 1;
  if (l.labelled < 0 || l.labelled > tokens) {
    refuse(layer, format("%d labelled of %lld tokens", l.labelled, static_cast<long long>(tokens)));
  }
  if (!l.class_weights.empty() && l.class_weights.size() != in[in.rank() - 1]) {
    refuse(layer, format("%d class weights for %d classes", int(l.class_weights.size()),
                         int(in[in.rank() - 1])));
  }
  if (l.mixed && (in.rank() == 3 || l.labelled > 0 || l.skips || !l.class_weights.empty())) {
    refuse(layer, "mixed labels are one of each sample, and weigh alike");
  }
  LayerShapes s;
  s.output = {in[0]};
  s.stash_bytes = in.elements() * kFloatBytes;  // probabilities
  s.forward_flops = 5.0 * static_cast<double>(in.elements());
  s.backward_flops = 2.0 * static_cast<double>(in.elements());
  return s;
}

LayerShapes shapes_of(const RegressionLoss& l, const std::string& layer, const Shape& in) {
  if (l.kind == RegressionLoss::Kind::smooth_l1 && !(l.beta > 0)) {
    refuse(layer, format("beta %g is not positive", double(l.beta)));
  }
  LayerShapes s;
  s.output = {in[0]};
  s.forward_flops = s.backward_flops = 4.0 * static_cast<double>(in.elements());
  s.backward_needs_input = true;
  return s;
}

LayerShapes shapes_of(const OutputLoss&, const std::string& layer, const Shape& in) {
  if (in.elements() != in[0]) {
    refuse(layer, "input " + to_string(in) + " is not one loss of each sample, (N) or (N, 1)");
  }
  LayerShapes s;
  s.output = {in[0]};
  return s;
}

LayerShapes shapes_of(const Embedding& e, const std::string& layer, const Shape& in) {
  if (in.rank() != 2) refuse(layer, "input " + to_string(in) + " is not (N, T)");
  if (e.vocabulary < 1) refuse(layer, format("a vocabulary of %d is not positive", e.vocabulary));
  if (e.features < 1) refuse(layer, format("%d features are not positive", e.features));
  if (e.padding < -1 || e.padding >= e.vocabulary) {
    refuse(layer, format("padding %d is not in the vocabulary of %d", e.padding, e.vocabulary));
  }
  check_deviation(layer, e.deviation);
  LayerShapes s;
  s.output = {in[0], in[1], e.features};
  s.parameters.push_back(normal_weight({e.vocabulary, e.features}, e.deviation));
  s.backward_flops = static_cast<double>(s.output.elements());
  s.backward_needs_input = true;
  return s;
}

LayerShapes shapes_of(const PositionEmbedding& p, const std::string& layer, const Shape& in) {
  check_sequence(layer, in);
  if (p.positions != 0 && p.positions < in[1]) {
    refuse(layer, format("%d positions for samples of %lld tokens", p.positions,
                         static_cast<long long>(in[1])));
  }
  check_deviation(layer, p.deviation);
  LayerShapes s;
  s.output = in;
  s.parameters.push_back(
      normal_weight({p.positions == 0 ? in[1] : p.positions, in[2]}, p.deviation));
  s.forward_flops = s.backward_flops = static_cast<double>(in.elements());
  s.forward_in_place = s.backward_in_place = true;
  return s;
}

LayerShapes shapes_of(const LayerNorm& l, const std::string& layer, const Shape& in) {
  check_last_extent(layer, in);
  check_epsilon(layer, l.epsilon);
  const std::int64_t features = in[in.rank() - 1];
  LayerShapes s;
  s.output = in;
  if (l.scaled) s.parameters.push_back({"scale", {features}, Initial::one});
  if (l.shifted) s.parameters.push_back({"shift", {features}, Initial::zero});
  s.stash_bytes = 2 * in.elements() / features * kFloatBytes;  // each row's mean and variance
  s.forward_flops = 7.0 * static_cast<double>(in.elements());
  s.backward_flops = 11.0 * static_cast<double>(in.elements());
  s.backward_needs_input = true;
  s.backward_in_place = true;
  return s;
}

LayerShapes shapes_of(const SelfAttention& a, const std::string& layer, const Shape& in) {
  check_sequence(layer, in);
  if (a.heads < 1) refuse(layer, format("%d heads are not positive", a.heads));
  if (in[2] % (3 * std::int64_t{a.heads}) != 0) {
    refuse(layer, "input " + to_string(in) +
                      format(" does not hold queries, keys and values of %d heads", a.heads));
  }
  LayerShapes s;
  s.output = {in[0], in[1], in[2] / 3};
  const std::int64_t weights = in[0] * a.heads * in[1] * in[1];
  s.stash_bytes = weights * kFloatBytes;  // softmax, (N, heads, T, T)
  // Two products of T x T by the width of a head; the half above a causal diagonal is not left out.
  const double products = 4.0 * static_cast<double>(s.output.elements() * in[1]);
  s.forward_flops = products + 5.0 * static_cast<double>(weights);
  s.backward_flops = 2 * products + 4.0 * static_cast<double>(weights);
  s.backward_needs_input = true;
  s.backward_needs_output = true;  // of fused kernels, which compute the softmax again
  return s;
}

LayerShapes shapes_of(const Lstm& l, const std::string& layer, const Shape& in) {
  check_sequence(layer, in);
  if (l.hidden < 1) refuse(layer, format("%d hidden features are not positive", l.hidden));
  const std::int64_t gates = 4 * std::int64_t{l.hidden};
  const float bound = static_cast<float>(1 / std::sqrt(static_cast<double>(l.hidden)));
  LayerShapes s;
  s.output = {in[0], in[1], l.hidden};
  s.parameters = {{"weight_input", {in[2], gates}, Initial::uniform, bound},
                  {"weight_hidden", {l.hidden, gates}, Initial::uniform, bound},
                  {"bias", {gates}}};
  s.stash_bytes = 5 * s.output.elements() * kFloatBytes;  // gates and cells
  const double rows = static_cast<double>(in[0] * in[1]);
  s.forward_flops = rows * (2.0 * static_cast<double>(gates * (in[2] + l.hidden)) +
                            30.0 * static_cast<double>(l.hidden));
  s.backward_flops = 2 * s.forward_flops;
  s.backward_needs_input = true;
  s.backward_needs_output = true;
  return s;
}

LayerShapes shapes_of(const TransposedConvolution& c, const std::string& layer, const Shape& in) {
  check_image(layer, in);
  if (c.output_channels < 1) {
    refuse(layer, format("%d output channels are not positive", c.output_channels));
  }
  check_groups(layer, c.groups, in[3], c.output_channels);
  const Window window = window_of(c);
  check_side(layer, window.rows);
  check_side(layer, window.columns);
  if (c.output_padding.rows < 0 || c.output_padding.rows >= c.stride.rows ||
      c.output_padding.columns < 0 || c.output_padding.columns >= c.stride.columns) {
    refuse(layer, format("output padding %dx%d is not in [0, stride)", c.output_padding.rows,
                         c.output_padding.columns));
  }
  LayerShapes s;
  s.output = transposed_output(c, in);
  if (s.output[1] < 1 || s.output[2] < 1) {
    refuse(layer, "nothing is left of the output " + to_string(s.output));
  }
  const std::int64_t outputs = c.output_channels / c.groups;
  const std::int64_t fan_in = in[3] / c.groups * window.taps();
  s.parameters.push_back(he_weight({in[3], outputs, c.kernel.rows, c.kernel.columns}, fan_in));
  if (c.bias) s.parameters.push_back({"bias", {c.output_channels}});
  s.forward_flops = 2.0 * static_cast<double>(in.elements() * outputs * window.taps());
  s.backward_flops = 2 * s.forward_flops;
  s.backward_needs_input = true;
  return s;
}

LayerShapes shapes_of(const Resize& r, const std::string& layer, const Shape& in) {
  check_image(layer, in);
  if (r.rows < 1 || r.columns < 1) {
    refuse(layer, format("an output of %dx%d is empty", r.rows, r.columns));
  }
  if (!(r.row_step >= 0) || !(r.column_step >= 0)) refuse(layer, "a step is negative");
  LayerShapes s;
  s.output = {in[0], r.rows, r.columns, in[3]};
  s.forward_flops = s.backward_flops =
      (r.kind == Resize::Kind::nearest ? 1.0 : 8.0) * static_cast<double>(s.output.elements());
  return s;
}

LayerShapes shapes_of(const AdaptivePool& p, const std::string& layer, const Shape& in) {
  check_image(layer, in);
  if (p.rows < 1 || p.columns < 1) {
    refuse(layer, format("an output of %dx%d is empty", p.rows, p.columns));
  }
  LayerShapes s;
  s.output = {in[0], p.rows, p.columns, in[3]};
  if (p.maximum) s.stash_bytes = s.output.elements() * kFloatBytes;  // the winner's pixel
  s.forward_flops = s.backward_flops = static_cast<double>(in.elements());
  return s;
}

LayerShapes shapes_of(const GroupNorm& g, const std::string& layer, const Shape& in) {
  if (in.rank() < 2) refuse(layer, "input " + to_string(in) + " is not (N, ..., C)");
  check_epsilon(layer, g.epsilon);
  const std::int64_t channels = in[in.rank() - 1];
  check_groups(layer, g.groups, channels, channels);
  LayerShapes s;
  s.output = in;
  if (g.affine) {
    s.parameters = {{"scale", {channels}, Initial::one}, {"shift", {channels}, Initial::zero}};
  }
  s.stash_bytes = 2 * in[0] * g.groups * kFloatBytes;  // each group's mean and variance
  s.forward_flops = 7.0 * static_cast<double>(in.elements());
  s.backward_flops = 11.0 * static_cast<double>(in.elements());
  s.backward_needs_input = true;
  s.backward_in_place = true;
  return s;
}

LayerShapes shapes_of(const RmsNorm& r, const std::string& layer, const Shape& in) {
  check_last_extent(layer, in);
  check_epsilon(layer, r.epsilon);
  const std::int64_t features = in[in.rank() - 1];
  LayerShapes s;
  s.output = in;
  if (r.scaled) {
    s.parameters.push_back({"scale", {features}, r.one_plus ? Initial::zero : Initial::one});
  }
  s.stash_bytes = in.elements() / features * kFloatBytes;  // each row's mean square
  s.forward_flops = 4.0 * static_cast<double>(in.elements());
  s.backward_flops = 8.0 * static_cast<double>(in.elements());
  s.backward_needs_input = true;
  s.backward_in_place = true;
  return s;
}

LayerShapes shapes_of(const Recurrent& r, const std::string& layer, const Shape& in) {
  check_sequence(layer, in);
  if (r.hidden < 1) refuse(layer, format("%d hidden features are not positive", r.hidden));
  const std::int64_t gates = (r.kind == Recurrent::Kind::lstm ? 4 : 3) * std::int64_t{r.hidden};
  const float bound = static_cast<float>(1 / std::sqrt(static_cast<double>(r.hidden)));
  LayerShapes s;
  s.output = {in[0], in[1], r.hidden};
  s.parameters = {{"weight_ih", {gates, in[2]}, Initial::uniform, bound},
                  {"weight_hh", {gates, r.hidden}, Initial::uniform, bound}};
  if (r.bias) {
    s.parameters.push_back({"bias_ih", {gates}, Initial::uniform, bound});
    s.parameters.push_back({"bias_hh", {gates}, Initial::uniform, bound});
  }
  // Gates, and cells (LSTM) or what the state adds to the new gate (GRU).
  s.stash_bytes = (gates + r.hidden) * in[0] * in[1] * kFloatBytes;
  const double rows = static_cast<double>(in[0] * in[1]);
  s.forward_flops = rows * (2.0 * static_cast<double>(gates * (in[2] + r.hidden)) +
                            30.0 * static_cast<double>(r.hidden));
  s.backward_flops = 2 * s.forward_flops;
  s.backward_needs_input = true;
  s.backward_needs_output = true;
  return s;
}

LayerShapes shapes_of(const Add&, const std::string& layer, const Shape& a, const Shape& b) {
  if (a != b) {
    refuse(layer, "inputs " + to_string(a) + " and " + to_string(b) + " differ in shape");
  }
  LayerShapes s;
  s.output = a;
  s.forward_flops = static_cast<double>(a.elements());
  s.forward_in_place = s.backward_in_place = true;
  return s;
}

LayerShapes shapes_of(const Concat&, const std::string& layer, const std::vector<Shape>& inputs) {
  const int last = inputs[0].rank() - 1;
  LayerShapes s;
  s.output = inputs[0];
  s.output[last] = 0;
  for (const Shape& input : inputs) {
    if (input.rank() != 2 && input.rank() != 4) {
      refuse(layer, "input " + to_string(input) + " is neither (N, H, W, C) nor (N, features)");
    }
    Shape rest = input;
    if (input.rank() == inputs[0].rank()) rest[last] = inputs[0][last];
    if (rest != inputs[0]) {
      refuse(layer, "inputs " + to_string(inputs[0]) + " and " + to_string(input) +
                        " differ in more than their channels");
    }
    s.output[last] += input[last];
  }
  return s;
}

LayerShapes shapes_of(const JointLoss& l, const std::string& layer,
                      const std::vector<Shape>& inputs) {
  if (l.terms.size() != inputs.size()) {
    refuse(layer, format("%zu inputs for %zu losses", inputs.size(), l.terms.size()));
  }
  LayerShapes s;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const JointLoss::Term& term = l.terms[i];
    const LayerShapes of =
        std::visit([&](const auto& loss) { return shapes_of(loss, layer, inputs[i]); }, term.loss);
    const bool read = !std::holds_alternative<OutputLoss>(term.loss);
    if (read && (term.labels < 0 || term.labels >= static_cast<int>(l.label_sizes.size()))) {
      refuse(layer, format("no labels %d", term.labels));
    }
    s.stash_bytes += of.stash_bytes + 256;
    s.forward_flops += of.forward_flops;
    s.backward_flops += of.backward_flops;
    s.backward_needs_input |= of.backward_needs_input;
    s.backward_reads.push_back(of.backward_needs_input);
  }
  s.output = {inputs[0][0]};
  for (const Shape& input : inputs) {
    if (input[0] != inputs[0][0]) refuse(layer, "inputs of " + to_string(input) + " and others");
  }
  return s;
}

// Inputs that a layer takes, and whether it takes more.
struct InputCount {
  std::size_t least = 1;
  bool more = false;
};
InputCount inputs_of(const LayerSpec& spec) {
  return std::visit(
      [](const auto& l) -> InputCount {
        using Layer = std::decay_t<decltype(l)>;
        if constexpr (std::is_same_v<Layer, Add>) return {2};
        if constexpr (std::is_same_v<Layer, Concat>) return {2, true};
        return {1, OneOf<Layer, Pointwise, Move, Product, Attention, JointLoss>};
      },
      spec);
}

}  // namespace

LayerShapes infer_shapes(const LayerSpec& spec, const std::vector<Shape>& inputs) {
  const std::string layer = to_string(spec);
  const auto [wanted, more] = inputs_of(spec);
  if (more ? inputs.size() < wanted : inputs.size() != wanted) {
    refuse(layer, format("%zu inputs, where it takes %zu%s", inputs.size(), wanted,
                         more ? " or more" : ""));
  }
  for (const Shape& input : inputs) {
    if (input.rank() < 1) refuse(layer, "an input without extents");
    for (int i = 0; i < input.rank(); ++i) {
      if (input[i] < 1) refuse(layer, "input " + to_string(input) + " has an empty extent");
    }
  }
  return std::visit(
      [&](const auto& l) {
        if constexpr (std::is_same_v<std::decay_t<decltype(l)>, Add>) {
          return shapes_of(l, layer, inputs[0], inputs[1]);
        } else if constexpr (requires { shapes_of(l, layer, inputs); }) {
          return shapes_of(l, layer, inputs);
        } else {
          return shapes_of(l, layer, inputs[0]);
        }
      },
      spec);
}

}  // namespace hetpipe
