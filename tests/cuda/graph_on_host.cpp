// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda/graph_on_host.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <memory>

#include "base/error.h"

namespace hetpipe::cuda {
namespace {

using Tensor = Graph::Tensor;
using Kind = Graph::Kind;
using Place = std::array<std::int64_t, 4>;

// A tensor's elements, by place; an extent of 1 stands for every place along it.
class View {
 public:
  View(const Layout& layout, double* data) : layout_(layout), data_(data) {}
  const Extents& extents() const { return layout_.extents; }
  double& operator[](const Place& place) const {
    std::int64_t at = 0;
    for (std::size_t i = 0; i < layout_.extents.size(); ++i)
      at += (layout_.extents[i] == 1 ? 0 : place[i]) * layout_.steps[i];
    return data_[at];
  }

 private:
  const Layout& layout_;
  double* data_;
};

template <class Visit>
void for_each(const Extents& extents, const Visit& visit) {
  Place place{};
  for (bool more = true; more;) {
    visit(place);
    more = false;
    for (std::size_t i = extents.size(); i-- > 0 && !more;) {
      more = ++place[i] < extents[i];
      if (!more) place[i] = 0;
    }
  }
}

// Calls visit(place of x, of w, of y) for every product of a convolution.
template <class Visit>
void for_each_tap(const ConvolutionWindow& window, const View& x, const View& w, const View& y,
                  const Visit& visit) {
  const Extents taps{1, w.extents()[1], w.extents()[2], w.extents()[3]};
  const std::int64_t outputs_of_group = w.extents()[0] / (x.extents()[1] / w.extents()[1]);
  for_each(y.extents(), [&](const Place& out) {
    for_each(taps, [&](const Place& tap) {
      const std::int64_t row =
          out[2] * window.stride[0] - window.padding[0] + tap[2] * window.dilation[0];
      const std::int64_t column =
          out[3] * window.stride[1] - window.padding[1] + tap[3] * window.dilation[1];
      const std::int64_t channel = out[1] / outputs_of_group * w.extents()[1] + tap[1];
      if (row < 0 || column < 0 || row >= x.extents()[2] || column >= x.extents()[3]) return;
      visit(Place{out[0], channel, row, column}, Place{out[1], tap[1], tap[2], tap[3]}, out);
    });
  });
}

double pointwise(cudnnPointwiseMode_t mode, const std::vector<double>& in) {
  switch (mode) {
    case CUDNN_POINTWISE_ADD:
      return in[0] + in[1];
    case CUDNN_POINTWISE_SUB:
      return in[0] - in[1];
    case CUDNN_POINTWISE_MUL:
      return in[0] * in[1];
    case CUDNN_POINTWISE_DIV:
      return in[0] / in[1];
    case CUDNN_POINTWISE_EXP:
      return std::exp(in[0]);
    case CUDNN_POINTWISE_LOG:
      return std::log(in[0]);
    case CUDNN_POINTWISE_IDENTITY:
      return in[0];
    case CUDNN_POINTWISE_RELU_FWD:
      return std::max(in[0], 0.0);
    case CUDNN_POINTWISE_CMP_GE:
      return in[0] >= in[1] ? 1 : 0;
    case CUDNN_POINTWISE_BINARY_SELECT:
      return in[2] != 0 ? in[0] : in[1];
    default:
      ensure(false, "a pointwise operation that is not used here");
      return 0;
  }
}

class Computation {
 public:
  Computation(const Graph& graph, const std::vector<double*>& memories) : graph_(graph) {
    const std::vector<Tensor> tensors = graph.memories();
    ensure(tensors.size() == memories.size(), "one pointer for each memory");
    for (std::size_t i = 0; i < tensors.size(); ++i) data_[tensors[i]] = memories[i];
  }

  void run(const Graph::Operation& op) {
    const View y = view(op.outputs[0]);
    const auto in = [&](std::size_t i) { return view(op.inputs[i]); };
    const View a = in(0), b = op.inputs.size() > 1 ? in(1) : a;
    const auto clear = [&] { for_each(y.extents(), [&](const Place& p) { y[p] = 0; }); };
    switch (op.kind) {
      case Kind::convolution:
        clear();
        for_each_tap(op.window, a, b, y,
                     [&](const auto& x, const auto& w, const auto& o) { y[o] += a[x] * b[w]; });
        break;
      case Kind::convolution_data:
        clear();
        for_each_tap(op.window, y, b, a,
                     [&](const auto& x, const auto& w, const auto& o) { y[x] += a[o] * b[w]; });
        break;
      case Kind::convolution_filter:
        clear();
        for_each_tap(op.window, a, y, b,
                     [&](const auto& x, const auto& w, const auto& o) { y[w] += a[x] * b[o]; });
        break;
      case Kind::pointwise:
        for_each(y.extents(), [&](const Place& p) {
          std::vector<double> values;
          for (const Tensor input : op.inputs) values.push_back(view(input)[p]);
          y[p] = pointwise(static_cast<cudnnPointwiseMode_t>(op.mode), values);
        });
        break;
      case Kind::index:
        for_each(y.extents(), [&](const Place& p) {
          y[p] = static_cast<double>(p[static_cast<std::size_t>(op.mode)]);
        });
        break;
      case Kind::product:
        for_each(y.extents(), [&](const Place& p) {
          double sum = 0;
          for (std::int64_t l = 0; l < a.extents()[3]; ++l)
            sum += a[{p[0], p[1], p[2], l}] * b[{p[0], p[1], l, p[3]}];
          y[p] = sum;
        });
        break;
      case Kind::reduction: {
        const bool sum = op.mode == CUDNN_REDUCE_TENSOR_ADD;
        for_each(y.extents(), [&](const Place& p) {
          y[p] = sum ? 0 : -std::numeric_limits<double>::infinity();
        });
        for_each(a.extents(),
                 [&](const Place& p) { y[p] = sum ? y[p] + a[p] : std::max(y[p], a[p]); });
        break;
      }
      case Kind::reshape:
        data_[op.outputs[0]] = data_.at(op.inputs[0]);
        break;
      default:
        ensure(false, "an operation that is not computed here");
    }
  }

 private:
  View view(Tensor tensor) {
    const Layout& layout = graph_.layout(tensor);
    if (data_.find(tensor) == data_.end()) {  // written before it is read, or a constant
      std::int64_t last = 0;
      for (std::size_t i = 0; i < layout.extents.size(); ++i)
        last += (layout.extents[i] - 1) * layout.steps[i];
      own_.push_back(std::make_unique<std::vector<double>>(
          static_cast<std::size_t>(last + 1),
          graph_.constant_value(tensor).value_or(std::numeric_limits<float>::quiet_NaN())));
      data_[tensor] = own_.back()->data();
    }
    return {layout, data_[tensor]};
  }

  const Graph& graph_;
  std::map<Tensor, double*> data_;
  std::vector<std::unique_ptr<std::vector<double>>> own_;
};

}  // namespace

void compute_on_host(const Graph& graph, std::vector<double*> memories) {
  Computation computation(graph, memories);
  for (const Graph::Operation& operation : graph.operations()) computation.run(operation);
}

}  // namespace hetpipe::cuda
