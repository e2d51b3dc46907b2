// SPDX-License-Identifier: Apache-2.0
#include "kernels/layer.h"

#include "base/text.h"

namespace hetpipe {
namespace {

// ", stride 2", or ", stride 2x1"; nothing where it is the usual one.
std::string sides_text(const char* name, Sides sides, int usual) {
  if (sides == Sides{usual}) return "";
  return sides == Sides{sides.rows} ? format(", %s %d", name, sides.rows)
                                    : format(", %s %dx%d", name, sides.rows, sides.columns);
}
std::string rest_of_window(Sides stride, Sides padding) {
  return sides_text("stride", stride, 1) + sides_text("padding", padding, 0);
}
std::string groups_text(int groups) { return groups == 1 ? "" : format(", %d groups", groups); }
std::string window_text(Sides kernel, Sides stride, Sides padding) {
  return format("%dx%d", kernel.rows, kernel.columns) + rest_of_window(stride, padding);
}

std::string text(const Convolution& c) {
  return format("convolution %dx%d, %d channels", c.kernel.rows, c.kernel.columns,
                c.output_channels) +
         rest_of_window(c.stride, c.padding) +
         (c.padding_end ? sides_text("padding behind", *c.padding_end, -1) : "") +
         sides_text("dilation", c.dilation, 1) + groups_text(c.groups) +
         (c.bias ? "" : ", no bias");
}
std::string text(const Linear& l) {
  return format("linear, %d features%s%s", l.output_features, l.transposed ? ", transposed" : "",
                l.bias ? "" : ", no bias");
}
std::string text(const BatchNorm&) { return "batch norm"; }
std::string text(const MaxPool& p) {
  return "max pool " + window_text(p.kernel, p.stride, p.padding) +
         sides_text("dilation", p.dilation, 1) + (p.ceil_mode ? ", ceil mode" : "");
}
std::string text(const AveragePool& p) {
  return "average pool " + window_text(p.kernel, p.stride, p.padding) +
         (p.count_padding ? "" : " not counted") + (p.ceil_mode ? ", ceil mode" : "");
}
std::string text(const GlobalAveragePool&) { return "global average pool"; }
std::string text(const Add&) { return "add"; }
std::string text(const Flatten&) { return "flatten"; }
std::string text(const Dropout& d) {
  return format("dropout %g", static_cast<double>(d.rate)) + (d.draws == 0   ? ""
                                                              : d.draws == 1 ? " of samples"
                                                                             : " of channels");
}
std::string text(const AlphaDropout& d) {
  return format("alpha dropout %g", static_cast<double>(d.rate));
}
std::string text(const Concat&) { return "concat"; }
std::string text(const Shift& s) { return format("shift by %d, %d", s.rows, s.columns); }
std::string text(const SoftmaxCrossEntropy& s) {
  std::string t = "softmax cross-entropy";
  if (s.smoothing != 0) t += format(", smoothing %g", static_cast<double>(s.smoothing));
  if (s.labelled != 0) t += format(", %d tokens of a sample", s.labelled);
  if (s.mixed) t += ", mixed labels";
  return t;
}
std::string text(const RegressionLoss& l) {
  constexpr const char* kNames[] = {"squared error", "absolute error", "smooth L1",
                                    "binary cross-entropy with logits"};
  return kNames[static_cast<int>(l.kind)];
}
std::string text(const JointLoss& l) { return format("the sum of %zu losses", l.terms.size()); }
std::string text(const OutputLoss&) { return "the model's own loss"; }
std::string text(const Embedding& e) {
  return format("embedding %d x %d", e.vocabulary, e.features);
}
std::string text(const PositionEmbedding&) { return "position embedding"; }
std::string text(const LayerNorm&) { return "layer norm"; }
std::string text(const SelfAttention& a) {
  return format("%sself-attention, %d heads", a.causal ? "causal " : "", a.heads);
}
template <Elementwise Layer>
std::string text(const Layer&) {
  static_assert(std::is_empty_v<Layer>, "a layer with parameters names them in its own text()");
  return row_of<Layer>().name;
}
std::string text(const Pointwise& p) { return to_string(p.expression); }
std::string text(const Move&) { return "move"; }
std::string text(const Reduce& r) {
  constexpr const char* kNames[] = {"sum",     "mean",          "maximum",
                                    "minimum", "first maximum", "first minimum"};
  return kNames[static_cast<int>(r.kind)];
}
std::string text(const Product& p) {
  return format("product, %lld x %lld x %lld", static_cast<long long>(p.rows),
                static_cast<long long>(p.columns), static_cast<long long>(p.inner));
}
std::string text(const Softmax& s) { return s.logarithm ? "log softmax" : "softmax"; }
std::string text(const CumulativeSum&) { return "cumulative sum"; }
std::string text(const Attention& a) {
  return format("%sattention, %d heads", a.causal ? "causal " : "", a.heads);
}
std::string text(const TransposedConvolution& c) {
  return format("transposed convolution %dx%d, %d channels", c.kernel.rows, c.kernel.columns,
                c.output_channels) +
         rest_of_window(c.stride, c.padding) + sides_text("output padding", c.output_padding, 0) +
         sides_text("dilation", c.dilation, 1) + groups_text(c.groups) +
         (c.bias ? "" : ", no bias");
}
std::string text(const Resize& r) {
  return format("%s resize to %dx%d", r.kind == Resize::Kind::nearest ? "nearest" : "bilinear",
                r.rows, r.columns);
}
std::string text(const AdaptivePool& p) {
  return format("adaptive %s pool to %dx%d", p.maximum ? "max" : "average", p.rows, p.columns);
}
std::string text(const GroupNorm& g) { return format("group norm, %d groups", g.groups); }
std::string text(const RmsNorm&) { return "RMS norm"; }
std::string text(const Recurrent& r) {
  return format("%s, %d features%s", r.kind == Recurrent::Kind::lstm ? "lstm" : "gru", r.hidden,
                r.reverse ? ", reversed" : "");
}
std::string text(const Lstm& l) { return format("lstm, %d features", l.hidden); }

}  // namespace

std::string to_string(const LayerSpec& spec) {
  return std::visit([](const auto& layer) { return text(layer); }, spec);
}

}  // namespace hetpipe
