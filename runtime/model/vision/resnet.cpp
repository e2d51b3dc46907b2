// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "base/error.h"
#include "base/text.h"
#include "runtime/model/vision/vision.h"

namespace hetpipe {
namespace {

constexpr float kEpsilon = 1e-5f;

// Appends a block; the names of its modules are torchvision's.
class Block {
 public:
  Block(Model& model, const std::string& name)
      : model_(model), units_(model, kEpsilon), name_(name + ".") {}

  // "conv2" and "bn2" for number 2; returns the batch norm.
  int normalized(int number, int x, const Convolution& spec) const {
    return units_.normalized(name_ + format("conv%d", number), name_ + format("bn%d", number), x,
                             spec);
  }
  int rectified(int number, int x, const Convolution& spec) const {
    return model_.add(name_ + format("relu%d", number), Relu{}, {normalized(number, x, spec)});
  }
  // Two 3x3 convolutions.
  int basic(int x, int channels, int stride) const {
    return normalized(2, rectified(1, x, same(channels, 3, stride)), same(channels, 3));
  }
  // 1x1 down to `channels`, 3x3, 1x1 up to four times as many.
  int bottleneck(int x, int channels, int stride) const {
    const int y = rectified(2, rectified(1, x, same(channels, 1)), same(channels, 3, stride));
    return normalized(3, y, same(4 * channels, 1));
  }
  int shortcut(int x, int channels, int stride) const {
    return units_.normalized(name_ + "downsample.0", name_ + "downsample.1", x,
                             same(channels, 1, stride));
  }
  int sum(int x, int y) const {
    return model_.add(name_ + "relu", Relu{}, {model_.add(name_ + "add", Add{}, {x, y})});
  }

 private:
  Model& model_;
  ConvolutionUnits units_;
  std::string name_;
};

}  // namespace

void build_deep_resnet(Model& model, int depth) {
  struct Row {
    int depth;
    bool deep;  // bottlenecks
    std::array<int, 4> blocks;
  };
  constexpr std::array<Row, 4> kTable{{{18, false, {2, 2, 2, 2}},
                                       {50, true, {3, 4, 6, 3}},
                                       {101, true, {3, 4, 23, 3}},
                                       {152, true, {3, 8, 36, 3}}}};
  const Row* row = nullptr;
  for (const Row& r : kTable) {
    if (r.depth == depth) row = &r;
  }
  ensure(row != nullptr, "a ResNet of a depth that table 1 has");

  ConvolutionUnits(model, kEpsilon).normalized("conv1", "bn1", kSamples, same(64, 7, 2));
  model.add("relu", Relu{});
  int x = model.add("maxpool", MaxPool{.kernel = 3, .stride = 2, .padding = 1});
  int channels_in = 64;
  for (std::size_t stage = 0; stage < row->blocks.size(); ++stage) {
    const int channels = 64 << stage;
    const int channels_out = row->deep ? 4 * channels : channels;
    for (int number = 0; number < row->blocks[stage]; ++number) {
      const Block block(model, format("layer%zu.%d", stage + 1, number));
      const int stride = stage > 0 && number == 0 ? 2 : 1;
      const int y =
          row->deep ? block.bottleneck(x, channels, stride) : block.basic(x, channels, stride);
      const bool changes = stride != 1 || channels_in != channels_out;
      x = block.sum(y, changes ? block.shortcut(x, channels_out, stride) : x);
      channels_in = channels_out;
    }
  }
  model.add("avgpool", GlobalAveragePool{});
  model.add("fc", Linear{model.classes()});
}

}  // namespace hetpipe
