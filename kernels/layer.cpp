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
  return format("linear, %d features%s", l.output_features, l.bias ? "" : ", no bias");
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
std::string text(const SoftmaxCrossEntropy&) { return "softmax cross-entropy"; }

}  // namespace

std::string to_string(const LayerSpec& spec) {
  return std::visit([](const auto& layer) { return text(layer); }, spec);
}

}  // namespace hetpipe
