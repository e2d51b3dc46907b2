// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/own/moving.h"

#include "kernels/cuda/layers/layers.h"
#include "kernels/cuda/own/pooling.h"

namespace hetpipe::cuda {
namespace {

template <class T>
class FlattenLayer final : public LayerKernel {
 public:
  FlattenLayer(LayerContext&, const Shape& in) : in_(in) {}
  void forward(Stream& stream, const ForwardArguments& a) override {
    flatten_forward(in_, as<T>(a.inputs[0]), as<T>(a.output), handle(stream));
  }
  void backward(Stream& stream, const BackwardArguments& a) override {
    if (std::byte* const dx = wanted(a.input_gradients, 0)) {
      flatten_backward(in_, as<T>(a.output_gradient), as<T>(dx), handle(stream));
    }
  }

 private:
  Shape in_;
};

template <class T>
class ShiftLayer final : public LayerKernel {
 public:
  ShiftLayer(LayerContext&, const Shift& spec, const Shape& in) : spec_(spec), in_(in) {}
  void forward(Stream& stream, const ForwardArguments& a) override {
    shift(in_, spec_.rows, spec_.columns, as<T>(a.inputs[0]), as<T>(a.output), handle(stream));
  }
  void backward(Stream& stream, const BackwardArguments& a) override {
    if (std::byte* const dx = wanted(a.input_gradients, 0)) {
      shift(in_, -spec_.rows, -spec_.columns, as<T>(a.output_gradient), as<T>(dx), handle(stream));
    }
  }

 private:
  Shift spec_;
  Shape in_;
};

template <class T>
class ConcatLayer final : public LayerKernel {
 public:
  ConcatLayer(LayerContext&, const std::vector<Shape>& inputs) {
    for (const Shape& in : inputs) {
      channels_.push_back(in[in.rank() - 1]);
      all_ += channels_.back();
    }
    rows_ = inputs[0].elements() / channels_[0];
  }
  void forward(Stream& stream, const ForwardArguments& a) override {
    std::int64_t first = 0;
    for (std::size_t i = 0; i < channels_.size(); first += channels_[i++]) {
      concat_forward(rows_, channels_[i], first, all_, as<T>(a.inputs[i]), as<T>(a.output),
                     handle(stream));
    }
  }
  void backward(Stream& stream, const BackwardArguments& a) override {
    std::int64_t first = 0;
    for (std::size_t i = 0; i < channels_.size(); first += channels_[i++]) {
      if (std::byte* const dx = wanted(a.input_gradients, i)) {
        concat_backward(rows_, channels_[i], first, all_, as<T>(a.output_gradient), as<T>(dx),
                        handle(stream));
      }
    }
  }

 private:
  std::vector<std::int64_t> channels_;
  std::int64_t rows_ = 0, all_ = 0;
};

template <class T>
class MaxPoolLayer final : public LayerKernel {
 public:
  MaxPoolLayer(LayerContext&, const MaxPool& spec, const Shape& in)
      : window_(window_of(spec)), in_(in) {}
  void forward(Stream& stream, const ForwardArguments& a) override {
    auto* const winner = a.mode == Mode::train ? reinterpret_cast<std::uint8_t*>(a.stash) : nullptr;
    max_pool_forward(window_, in_, as<T>(a.inputs[0]), as<T>(a.output), winner, handle(stream));
  }
  void backward(Stream& stream, const BackwardArguments& a) override {
    std::byte* const dx = wanted(a.input_gradients, 0);
    if (dx == nullptr) return;
    max_pool_backward(window_, in_, as<T>(a.output_gradient),
                      reinterpret_cast<const std::uint8_t*>(a.stash), as<T>(dx), handle(stream));
  }

 private:
  Window window_;
  Shape in_;
};

template <class T>
class AveragePoolLayer final : public LayerKernel {
 public:
  AveragePoolLayer(LayerContext&, const AveragePool& spec, const Shape& in)
      : window_(window_of(spec)), count_padding_(spec.count_padding), in_(in) {}
  void forward(Stream& stream, const ForwardArguments& a) override {
    average_pool_forward(window_, in_, count_padding_, as<T>(a.inputs[0]), as<T>(a.output),
                         handle(stream));
  }
  void backward(Stream& stream, const BackwardArguments& a) override {
    if (std::byte* const dx = wanted(a.input_gradients, 0)) {
      average_pool_backward(window_, in_, count_padding_, as<T>(a.output_gradient), as<T>(dx),
                            handle(stream));
    }
  }

 private:
  Window window_;
  bool count_padding_;
  Shape in_;
};

template <class T>
class GlobalAveragePoolLayer final : public LayerKernel {
 public:
  GlobalAveragePoolLayer(LayerContext&, const Shape& in) : in_(in) {}
  void forward(Stream& stream, const ForwardArguments& a) override {
    global_average_pool_forward(in_, as<T>(a.inputs[0]), as<T>(a.output), handle(stream));
  }
  void backward(Stream& stream, const BackwardArguments& a) override {
    if (std::byte* const dx = wanted(a.input_gradients, 0)) {
      global_average_pool_backward(in_, as<T>(a.output_gradient), as<T>(dx), handle(stream));
    }
  }

 private:
  Shape in_;
};

}  // namespace

LayerMaker make_flatten(LayerContext& context, const Shape& in) {
  return make_of_type<FlattenLayer>(context, in);
}
LayerMaker make_shift(LayerContext& context, const Shift& spec, const Shape& in) {
  return make_of_type<ShiftLayer>(context, spec, in);
}
LayerMaker make_concat(LayerContext& context, const std::vector<Shape>& inputs) {
  return make_of_type<ConcatLayer>(context, inputs);
}
LayerMaker make_pooling(LayerContext& context, const MaxPool& spec, const Shape& in) {
  return make_of_type<MaxPoolLayer>(context, spec, in);
}
LayerMaker make_pooling(LayerContext& context, const AveragePool& spec, const Shape& in) {
  return make_of_type<AveragePoolLayer>(context, spec, in);
}
LayerMaker make_pooling(LayerContext& context, const GlobalAveragePool&, const Shape& in) {
  return make_of_type<GlobalAveragePoolLayer>(context, in);
}

}  // namespace hetpipe::cuda
