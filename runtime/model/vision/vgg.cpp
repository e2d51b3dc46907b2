// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "base/text.h"
#include "runtime/model/vision/vision.h"

namespace hetpipe {

void build_vgg(Model& model, int depth) {
  ensure(depth == 16 || depth == 19, "VGG of 16 or 19 layers");
  for (int stage = 1; stage <= 5; ++stage) {
    const int channels = stage < 5 ? 32 << stage : 512;
    const int convolutions = stage <= 2 ? 2 : (depth == 16 ? 3 : 4);
    for (int i = 1; i <= convolutions; ++i) {
      const std::string number = format("%d_%d", stage, i);
      model.add("conv" + number, same(channels, 3));
      model.add("relu" + number, Relu{});
    }
    model.add(format("pool%d", stage), MaxPool{});
  }
  model.add("flatten", Flatten{});
  for (const char* number : {"6", "7"}) {
    model.add(std::string("linear") + number, Linear{4096});
    model.add(std::string("relu") + number, Relu{});
    model.add(std::string("dropout") + number, Dropout{0.5f});
  }
  model.add("linear8", Linear{model.classes()});
}

}  // namespace hetpipe
