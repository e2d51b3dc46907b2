// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/kernels/fusing_device.h"

namespace hetpipe::test {
namespace {

class ChainKernel final : public LayerKernel {
 public:
  ChainKernel(std::span<const ChainedLayer> chain, WrappedDevice& device) {
    for (const ChainedLayer& layer : chain) {
      Link& link =
          links_.emplace_back(Link{layer, infer_shapes(layer.spec, layer.inputs),
                                   device.make_kernel(layer.spec, layer.inputs, layer.key)});
      link.kernel->adjust(link.shapes);
      link.inputs = inputs_;
      link.parameters = parameters_;
      link.statistics = statistics_;
      inputs_ += layer.inputs.size() - (links_.size() > 1 ? 1 : 0);
      parameters_ += link.shapes.parameters.size();
      statistics_ += link.shapes.statistics.size();
      link.stash = stash_bytes_;
      stash_bytes_ += (link.shapes.stash_bytes + 7) / 8 * 8;
      link.output = stash_bytes_;
      stash_bytes_ += (link.output_bytes() + 7) / 8 * 8;
    }
  }

  void adjust(LayerShapes& shapes) const override {
    shapes.stash_bytes = stash_bytes_;
    // An addition at the end reads its other input when it writes.
    const Link& last = links_.back();
    if (!std::holds_alternative<Add>(last.layer.spec)) return;
    shapes.forward_in_place = shapes.backward_in_place = true;
    shapes.in_place_input = last.inputs;
  }

  void forward(Stream& stream, const ForwardArguments& a) override {
    std::vector<std::byte> unkept(a.stash == nullptr ? static_cast<std::size_t>(stash_bytes_) : 0);
    std::byte* const stash = a.stash == nullptr ? unkept.data() : a.stash;
    for (std::size_t l = 0; l < links_.size(); ++l) {
      const Link& link = links_[l];
      ForwardArguments own = a;
      const auto inputs = inputs_of(l, a.inputs, stash);
      own.inputs = inputs;
      own.parameters = a.parameters.subspan(link.parameters, link.shapes.parameters.size());
      own.statistics = a.statistics.subspan(link.statistics, link.shapes.statistics.size());
      own.stash = stash + link.stash;
      if (l + 1 < links_.size()) own.output = stash + link.output;
      link.kernel->forward(stream, own);
    }
  }

  void backward(Stream& stream, const BackwardArguments& a) override {
    std::vector<std::byte> gradient, before;
    for (std::size_t l = links_.size(); l-- > 0;) {
      const Link& link = links_[l];
      BackwardArguments own = a;
      const auto inputs = inputs_of(l, a.inputs, a.stash);
      own.inputs = inputs;
      own.parameters = a.parameters.subspan(link.parameters, link.shapes.parameters.size());
      if (!a.parameter_gradients.empty()) {
        own.parameter_gradients =
            a.parameter_gradients.subspan(link.parameters, link.shapes.parameters.size());
      }
      own.stash = a.stash + link.stash;
      if (l + 1 < links_.size()) {
        own.output = a.stash + link.output;
        own.output_gradient = gradient.data();
      }
      std::vector<std::byte*> input_gradients;
      std::size_t outside = link.inputs;
      before.clear();
      for (std::size_t i = 0; i < link.layer.inputs.size(); ++i) {
        if (l > 0 && i == link.layer.from_before) {
          before.resize(static_cast<std::size_t>(links_[l - 1].output_bytes()));
          input_gradients.push_back(before.data());
        } else {
          input_gradients.push_back(a.input_gradients.empty() ? nullptr
                                                              : a.input_gradients[outside]);
          ++outside;
        }
      }
      own.input_gradients = input_gradients;
      link.kernel->backward(stream, own);
      std::swap(gradient, before);
    }
  }

 private:
  struct Link {
    ChainedLayer layer;
    LayerShapes shapes;
    std::unique_ptr<LayerKernel> kernel;
    std::size_t inputs = 0, parameters = 0, statistics = 0;  // the first of the chain's
    std::int64_t stash = 0, output = 0;                      // in the chain's stash

    std::int64_t output_bytes() const {
      return shapes.output.elements() * static_cast<std::int64_t>(sizeof(float));
    }
  };

  template <class Byte>
  std::vector<const std::byte*> inputs_of(std::size_t l, std::span<const std::byte* const> outside,
                                          Byte* stash) const {
    std::vector<const std::byte*> inputs;
    std::size_t next = links_[l].inputs;
    for (std::size_t i = 0; i < links_[l].layer.inputs.size(); ++i) {
      const bool chained = l > 0 && i == links_[l].layer.from_before;
      inputs.push_back(chained ? stash + links_[l - 1].output : outside[next++]);
    }
    return inputs;
  }

  std::vector<Link> links_;
  std::size_t inputs_ = 0, parameters_ = 0, statistics_ = 0;
  std::int64_t stash_bytes_ = 0;
};

}  // namespace

std::unique_ptr<LayerKernel> FusingDevice::fuse(std::span<const ChainedLayer> chain) {
  if (!fuses_(chain)) return nullptr;
  ++fused_;
  return std::make_unique<ChainKernel>(chain, *this);
}

}  // namespace hetpipe::test
