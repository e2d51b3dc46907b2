// SPDX-License-Identifier: Apache-2.0
#include "kernels/layer.h"

#include "base/text.h"

namespace hetpipe {
namespace {

std::string window_text(int kernel, int stride, int padding) {
  std::string text = format("%dx%d", kernel, kernel);
  if (stride != 1) text += format(", stride %d", stride);
  if (padding != 0) text += format(", padding %d", padding);
  return text;
}

std::string text(const Convolution& c) {
  std::string t = format("convolution %dx%d, %d channels", c.kernel, c.kernel, c.output_channels);
  if (c.stride != 1) t += format(", stride %d", c.stride);
  if (c.padding != 0) t += format(", padding %d", c.padding);
  if (!c.bias) t += ", no bias";
  return t;
}
std::string text(const Linear& l) {
  return format("linear, %d features%s%s", l.output_features, l.transposed ? ", transposed" : "",
                l.bias ? "" : ", no bias");
}
std::string text(const BatchNorm&) { return "batch norm"; }
std::string text(const Relu&) { return "relu"; }
std::string text(const MaxPool& p) {
  return "max pool " + window_text(p.kernel, p.stride, p.padding);
}
std::string text(const AveragePool& p) {
  return "average pool " + window_text(p.kernel, p.stride, p.padding);
}
std::string text(const GlobalAveragePool&) { return "global average pool"; }
std::string text(const Add&) { return "add"; }
std::string text(const Flatten&) { return "flatten"; }
std::string text(const Dropout& d) { return format("dropout %g", static_cast<double>(d.rate)); }
std::string text(const SoftmaxCrossEntropy& s) {
  std::string t = "softmax cross-entropy";
  if (s.smoothing != 0) t += format(", smoothing %g", static_cast<double>(s.smoothing));
  return t;
}
std::string text(const Embedding& e) {
  return format("embedding %d x %d", e.vocabulary, e.features);
}
std::string text(const PositionEmbedding&) { return "position embedding"; }
std::string text(const LayerNorm&) { return "layer norm"; }
std::string text(const Gelu&) { return "gelu"; }
std::string text(const SelfAttention& a) {
  return format("%sself-attention, %d heads", a.causal ? "causal " : "", a.heads);
}
std::string text(const Lstm& l) { return format("lstm, %d features", l.hidden); }

}  // namespace

std::string to_string(const LayerSpec& spec) {
  return std::visit([](const auto& layer) { return text(layer); }, spec);
}

}  // namespace hetpipe
