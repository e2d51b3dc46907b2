// SPDX-License-Identifier: Apache-2.0
#include "architectures.h"

#include <algorithm>
#include <string>
#include <vector>

namespace hetpipe::test {
namespace {

constexpr double kFloat = 4;  // bytes
constexpr double kIndex = 8;  // of a maximum in its window, kept by max-pooling

// A tensor between layers: which layer made it, and (channels, height = width).
struct Tensor {
  int layer = -1;  // -1: the image
  int channels = 3;
  int side = 224;
  double elements() const { return static_cast<double>(channels) * side * side; }
};

// Appends layers one by one. Flops: a multiply-add is two; elementwise work is a flop per element,
// so that its memory traffic decides. input_bytes is all that a layer reads, and what it writes
// beside its output.
class Builder {
 public:
  explicit Builder(const std::string& model) { profile_.model = model; }

  Tensor conv(const std::string& name, Tensor in, int channels, int kernel, int stride, bool bias) {
    const Tensor out{next(), channels, (in.side + stride - 1) / stride};
    const double weights = static_cast<double>(in.channels) * channels * kernel * kernel;
    ProfileLayer& layer = add(name, {in}, out);
    layer.parameter_bytes = static_cast<std::int64_t>(kFloat * (weights + (bias ? channels : 0)));
    layer.forward_flops = 2 * weights * out.side * out.side;
    // Gradients of weights and of inputs; nobody asks for the image's.
    layer.backward_flops = (in.layer < 0 ? 1 : 2) * layer.forward_flops;
    layer.input_bytes = kFloat * in.elements();
    return out;
  }

  // In place: what it is given is gone afterwards, and only its output is kept.
  Tensor relu(const std::string& name, Tensor in) {
    const Tensor out{next(), in.channels, in.side};
    elementwise(add(name, {in}, out), in.elements(), kFloat * in.elements());
    return out;
  }

  // Statistics, then normalisation: its input is read twice. With ReLU in place: once more each
  // way.
  Tensor batch_norm(const std::string& name, Tensor in, bool relu) {
    const Tensor out{next(), in.channels, in.side};
    ProfileLayer& layer = add(name, {in}, out);
    elementwise(layer, 4 * in.elements(), kFloat * in.elements() * (relu ? 4 : 2));
    layer.parameter_bytes = static_cast<std::int64_t>(2 * kFloat * in.channels);
    return out;
  }

  Tensor max_pool(const std::string& name, Tensor in, int kernel) {
    const Tensor out{next(), in.channels, in.side / 2};
    ProfileLayer& layer = add(name, {in}, out);
    elementwise(layer, out.elements() * kernel * kernel,
                kFloat * in.elements() + kIndex * out.elements());
    layer.stash_bytes = (kFloat + kIndex) * out.elements();
    return out;
  }

  Tensor average(const std::string& name, Tensor in) {
    const Tensor out{next(), in.channels, 1};
    elementwise(add(name, {in}, out), in.elements(), kFloat * in.elements());
    return out;
  }

  // The sum of two branches, and ReLU in place.
  Tensor sum(const std::string& name, Tensor a, Tensor b) {
    const Tensor out{next(), a.channels, a.side};
    elementwise(add(name, {a, b}, out), 2 * out.elements(), 4 * kFloat * out.elements());
    return out;
  }

  Tensor linear(const std::string& name, Tensor in, int features) {
    const Tensor out{next(), features, 1};
    ProfileLayer& layer = add(name, {in}, out);
    layer.parameter_bytes = static_cast<std::int64_t>(kFloat * (in.elements() + 1) * features);
    layer.forward_flops = 2 * in.elements() * features;
    layer.backward_flops = 2 * layer.forward_flops;
    layer.input_bytes = kFloat * in.elements();
    return out;
  }

  // ReLU and dropout keep one output and a mask of bytes.
  Tensor relu_dropout(const std::string& name, Tensor in) {
    const Tensor out{next(), in.channels, in.side};
    ProfileLayer& layer = add(name, {in}, out);
    elementwise(layer, 2 * in.elements(), 3 * kFloat * in.elements());
    layer.stash_bytes += in.elements();
    return out;
  }

  // In-place successors overwrite this layer's output, which therefore is not kept.
  void not_kept(Tensor tensor) {
    profile_.layers[static_cast<std::size_t>(tensor.layer)].stash_bytes = 0;
  }

  Profile done() { return std::move(profile_); }

 private:
  int next() const { return static_cast<int>(profile_.layers.size()); }

  ProfileLayer& add(const std::string& name, const std::vector<Tensor>& inputs, Tensor out) {
    ProfileLayer layer;
    layer.name = name;
    for (const Tensor& in : inputs) {
      if (in.layer >= 0) layer.inputs.push_back(in.layer);
    }
    std::sort(layer.inputs.begin(), layer.inputs.end());
    layer.output_bytes = kFloat * out.elements();
    layer.stash_bytes = layer.output_bytes;
    profile_.layers.push_back(std::move(layer));
    return profile_.layers.back();
  }

  static void elementwise(ProfileLayer& layer, double flops, double bytes) {
    layer.forward_flops = flops;
    layer.backward_flops = flops;
    layer.input_bytes = bytes;
  }

  Profile profile_;
};

}  // namespace

Profile vgg19() {
  Builder model("vgg19");
  Tensor x;
  const std::vector<std::vector<int>> blocks{
      {64, 64}, {128, 128}, {256, 256, 256, 256}, {512, 512, 512, 512}, {512, 512, 512, 512}};
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    for (std::size_t c = 0; c < blocks[b].size(); ++c) {
      const std::string suffix = std::to_string(b + 1) + "_" + std::to_string(c + 1);
      const Tensor before = model.conv("conv" + suffix, x, blocks[b][c], 3, 1, true);
      x = model.relu("relu" + suffix, before);
      model.not_kept(before);
    }
    x = model.max_pool("pool" + std::to_string(b + 1), x, 2);
  }
  x = model.linear("fc6", x, 4096);
  x = model.relu_dropout("drop6", x);
  x = model.linear("fc7", x, 4096);
  x = model.relu_dropout("drop7", x);
  model.linear("fc8", x, 1000);
  return model.done();
}

Profile resnet152() {
  Builder model("resnet152");
  Tensor x;
  x = model.conv("conv1", x, 64, 7, 2, false);
  x = model.batch_norm("bn1", x, true);
  x = model.max_pool("maxpool", x, 3);
  const std::vector<int> blocks{3, 8, 36, 3};
  for (std::size_t stage = 0; stage < blocks.size(); ++stage) {
    const int width = 64 << stage;
    for (int b = 0; b < blocks[stage]; ++b) {
      const std::string name = "layer" + std::to_string(stage + 1) + "." + std::to_string(b) + ".";
      const int stride = b == 0 && stage > 0 ? 2 : 1;
      const Tensor in = x;
      x = model.conv(name + "conv1", x, width, 1, 1, false);
      x = model.batch_norm(name + "bn1", x, true);
      x = model.conv(name + "conv2", x, width, 3, stride, false);
      x = model.batch_norm(name + "bn2", x, true);
      x = model.conv(name + "conv3", x, 4 * width, 1, 1, false);
      x = model.batch_norm(name + "bn3", x, false);
      Tensor skip = in;
      if (b == 0) {
        skip = model.conv(name + "downsample", in, 4 * width, 1, stride, false);
        skip = model.batch_norm(name + "downsample.bn", skip, false);
      }
      x = model.sum(name + "add", x, skip);
    }
  }
  x = model.average("avgpool", x);
  model.linear("fc", x, 1000);
  return model.done();
}

}  // namespace hetpipe::test
