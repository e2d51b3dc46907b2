// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "runtime/model/vision/vision.h"

namespace hetpipe {

void build_vgg(Model& model, int depth) {
  ensure(depth == 16 || depth == 19, "VGG of 16 or 19 layers");
  // torchvision numbers the modules of both parts.
  int module = 0;
  const auto feature = [&](LayerSpec layer) {
    model.add(format("features.%d", module++), std::move(layer));
  };
  for (int stage = 1; stage <= 5; ++stage) {
    const int channels = stage < 5 ? 32 << stage : 512;
    const int convolutions = stage <= 2 ? 2 : (depth == 16 ? 3 : 4);
    for (int i = 1; i <= convolutions; ++i) {
      feature(same(channels, 3));
      feature(Relu{});
    }
    feature(MaxPool{});
  }
  model.add("flatten", Flatten{});
  for (const int hidden : {0, 3}) {
    model.add(format("classifier.%d", hidden), Linear{4096});
    model.add(format("classifier.%d", hidden + 1), Relu{});
    model.add(format("classifier.%d", hidden + 2), Dropout{0.5f});
  }
  model.add("classifier.6", Linear{model.classes()});
}

}  // namespace hetpipe
