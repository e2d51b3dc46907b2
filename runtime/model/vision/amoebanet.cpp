// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "base/error.h"
#include "base/text.h"
#include "runtime/model/vision/vision.h"

namespace hetpipe {
namespace {

enum class Operation { identity, max2, max3, average3, conv1, conv3, conv7 };

// A cell's graph: state 0 is the cell before, 1 the one before that; two rows make the next state,
// the sum of what they do to an earlier one. Real et al. 2018, figure 3, right.
struct Edge {
  int from;
  Operation operation;
};
using Edges = std::array<Edge, 10>;

constexpr Edges kNormal{{{1, Operation::conv1},
                         {1, Operation::max3},
                         {1, Operation::identity},
                         {0, Operation::conv7},
                         {0, Operation::conv1},
                         {0, Operation::conv7},
                         {2, Operation::max3},
                         {2, Operation::identity},
                         {1, Operation::average3},
                         {5, Operation::conv1}}};
constexpr Edges kReduction{{{0, Operation::max2},
                            {0, Operation::max3},
                            {2, Operation::identity},
                            {1, Operation::conv3},
                            {2, Operation::conv7},
                            {2, Operation::max3},
                            {3, Operation::identity},
                            {1, Operation::max2},
                            {2, Operation::average3},
                            {3, Operation::conv1}}};

// The output of a cell and what it passes on beside it.
struct State {
  int layer;
  int channels;
  int reductions;  // how often its rows have been halved
};

class AmoebaNet {
 public:
  AmoebaNet(Model& model, int channels) : model_(model), channels_(channels) {}

  void build(int cells) {
    int x = model_.add(
        "stem.conv",
        Convolution{
            .output_channels = channels_, .kernel = 3, .stride = 2, .padding = 1, .bias = false},
        {kSamples});
    x = model_.add("stem.bn", BatchNorm{}, {x});
    before_ = earlier_ = {x, channels_, 0};
    reduction("reduction0");
    reduction("reduction1");
    for (int group = 0; group < 3; ++group) {
      if (group > 0) reduction(format("reduction%d", group + 1));
      for (int i = 0; i < cells / 3; ++i) {
        cell(format("normal%d", group * cells / 3 + i), kNormal, {0, 3, 4, 6}, false);
      }
    }
    model_.add("pool", GlobalAveragePool{}, {before_.layer});
    model_.add("linear", Linear{model_.classes()});
  }

 private:
  void reduction(const std::string& name) {
    channels_ *= 2;
    cell(name, kReduction, {4, 5, 6}, true);
  }

  void cell(const std::string& name, const Edges& edges, const std::vector<int>& joined,
            bool halves) {
    std::vector<int> states{unit(name + ".before", before_.layer, channels_, 1),
                            earlier_state(name + ".earlier")};
    for (std::size_t i = 0; i < edges.size(); i += 2) {
      const int number = static_cast<int>(states.size());
      const auto term = [&](const Edge& edge, const char* side) {
        const int stride = halves && edge.from < 2 ? 2 : 1;
        return apply(format("%s.state%d.%s", name.c_str(), number, side), edge.operation,
                     states[static_cast<std::size_t>(edge.from)], stride);
      };
      const int left = term(edges[i], "left");
      const int right = term(edges[i + 1], "right");
      states.push_back(
          model_.add(format("%s.state%d", name.c_str(), number), Add{}, {left, right}));
    }
    std::vector<int> parts;
    for (const int state : joined) parts.push_back(states[static_cast<std::size_t>(state)]);
    const int output = model_.add(name + ".concat", Concat{}, parts);
    earlier_ = before_;
    before_ = {output, channels_ * static_cast<int>(joined.size()),
               earlier_.reductions + (halves ? 1 : 0)};
  }

  // The output of the cell before the last, brought to the size and channels of this cell.
  int earlier_state(const std::string& name) {
    if (earlier_.reductions != before_.reductions) return factorized(name);
    if (earlier_.channels == channels_) return earlier_.layer;
    return unit(name, earlier_.layer, channels_, 1);
  }

  // Halves rows and columns by two 1x1 convolutions, of which the second sees the pixels that the
  // first leaves out (Zoph et al. 2017 call it factorized reduction).
  int factorized(const std::string& name) {
    const Convolution half{
        .output_channels = channels_ / 2, .kernel = 1, .stride = 2, .bias = false};
    const int x = model_.add(name + ".relu", Relu{}, {earlier_.layer});
    const int even = model_.add(name + ".even", half, {x});
    const int shifted = model_.add(name + ".shift", Shift{}, {x});
    const int odd = model_.add(name + ".odd", half, {shifted});
    const int both = model_.add(name + ".concat", Concat{}, {even, odd});
    return model_.add(name + ".bn", BatchNorm{}, {both});
  }

  // ReLU, convolution, batch norm.
  int unit(const std::string& name, int x, int channels, Sides kernel, int stride = 1) {
    const int rectified = model_.add(name + ".relu", Relu{}, {x});
    Convolution convolution = same(channels, kernel, stride);
    convolution.bias = false;
    const int convolved = model_.add(name + ".conv", convolution, {rectified});
    return model_.add(name + ".bn", BatchNorm{}, {convolved});
  }

  int apply(const std::string& name, Operation operation, int x, int stride) {
    const int inner = channels_ / 4;
    switch (operation) {
      case Operation::identity:
        return x;
      case Operation::max2:
        return model_.add(name + ".max", MaxPool{.kernel = 2, .stride = stride}, {x});
      case Operation::max3:
        return model_.add(name + ".max", MaxPool{.kernel = 3, .stride = stride, .padding = 1}, {x});
      case Operation::average3:
        return model_.add(
            name + ".average",
            AveragePool{.kernel = 3, .stride = stride, .padding = 1, .count_padding = false}, {x});
      case Operation::conv1:
        return unit(name, x, channels_, 1, stride);
      case Operation::conv3:
        x = unit(name + ".1", x, inner, 1);
        x = unit(name + ".2", x, inner, 3, stride);
        return unit(name + ".3", x, channels_, 1);
      case Operation::conv7:
        break;
    }
    ensure(stride == 1, "no reduction goes through 1x7 and 7x1");
    x = unit(name + ".1", x, inner, 1);
    x = unit(name + ".2", x, inner, {1, 7});
    x = unit(name + ".3", x, inner, {7, 1});
    return unit(name + ".4", x, channels_, 1);
  }

  Model& model_;
  int channels_;  // of every state of the present cell
  State before_{}, earlier_{};
};

}  // namespace

void build_amoebanet(Model& model, int cells, int filters) {
  ensure(cells % 3 == 0 && filters % 16 == 0, "cells in three groups, filters in sixteenths");
  const Shape& sample = model.sample_shape();
  if (sample[0] % 32 != 0 || sample[1] % 32 != 0) {
    throw UserError("model '" + model.name() + "'",
                    format("samples of %lld x %lld (its cells halve rows and columns five times, "
                           "in two ways that must agree). Take samples whose sides are multiples "
                           "of 32.",
                           static_cast<long long>(sample[0]), static_cast<long long>(sample[1])));
  }
  AmoebaNet(model, filters / 4).build(cells);
}

}  // namespace hetpipe
