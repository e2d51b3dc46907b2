// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "base/error.h"
#include "base/text.h"
#include "runtime/model/vision/vision.h"

namespace hetpipe {
namespace {

constexpr float kEpsilon = 1e-5f;

// Two 3x3 convolutions; returns the second one's batch norm.
int basic(const ConvolutionUnits& units, const std::string& name, int x, int channels, int stride) {
  const int y = units.rectified(name + "1", x, same(channels, 3, stride));
  return units.normalized(name + "2", y, same(channels, 3));
}

// 1x1 down to `channels`, 3x3, 1x1 up to four times as many.
int bottleneck(const ConvolutionUnits& units, const std::string& name, int x, int channels,
               int stride) {
  int y = units.rectified(name + "1", x, same(channels, 1));
  y = units.rectified(name + "2", y, same(channels, 3, stride));
  return units.normalized(name + "3", y, same(4 * channels, 1));
}

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

  const ConvolutionUnits units(model, kEpsilon);
  int x = units.rectified("stem", kSamples, same(64, 7, 2));
  x = model.add("stem.pool", MaxPool{.kernel = 3, .stride = 2, .padding = 1}, {x});
  int channels_in = 64;
  for (std::size_t stage = 0; stage < row->blocks.size(); ++stage) {
    const int channels = 64 << stage;
    const int channels_out = row->deep ? 4 * channels : channels;
    for (int block = 0; block < row->blocks[stage]; ++block) {
      const std::string name = format("stage%zu.block%d.", stage, block);
      const int stride = stage > 0 && block == 0 ? 2 : 1;
      const int y = row->deep ? bottleneck(units, name, x, channels, stride)
                              : basic(units, name, x, channels, stride);
      const bool changes = stride != 1 || channels_in != channels_out;
      const int shortcut =
          changes ? units.normalized(name + "shortcut", x, same(channels_out, 1, stride)) : x;
      x = model.add(name + "add", Add{}, {y, shortcut});
      x = model.add(name + "relu", Relu{}, {x});
      channels_in = channels_out;
    }
  }
  model.add("pool", GlobalAveragePool{});
  model.add("linear", Linear{model.classes()});
}

}  // namespace hetpipe
