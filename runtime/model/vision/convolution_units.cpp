// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "runtime/model/vision/vision.h"

namespace hetpipe {

int ConvolutionUnits::normalized(const std::string& conv, const std::string& norm, int input,
                                 Convolution spec) const {
  spec.bias = false;
  return model_.add(norm, BatchNorm{.epsilon = epsilon_}, {model_.add(conv, spec, {input})});
}

int ConvolutionUnits::rectified(const std::string& name, int input, Convolution spec) const {
  return model_.add(name + ".relu", Relu{}, {normalized(name, input, spec)});
}

int ConvolutionUnits::chain(const std::string& name, int input,
                            const std::vector<Convolution>& specs) const {
  int x = input;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    x = rectified(name + std::to_string(i + 1), x, specs[i]);
  }
  return x;
}

Convolution same(int channels, Sides kernel, int stride) {
  return {.output_channels = channels,
          .kernel = kernel,
          .stride = stride,
          .padding = {(kernel.rows - 1) / 2, (kernel.columns - 1) / 2}};
}

Convolution valid(int channels, Sides kernel, int stride) {
  return {.output_channels = channels, .kernel = kernel, .stride = stride};
}

}  // namespace hetpipe
