// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"
#include "runtime/model/vision/vision.h"

namespace hetpipe {

void build_snn_mlp(Model& model, int hidden, int width, float rate) {
  const auto linear = [](int features) {
    return Linear{.output_features = features, .initial = WeightInitial::lecun};
  };
  model.add("flatten", Flatten{});
  for (int i = 1; i <= hidden; ++i) {
    model.add(format("linear%d", i), linear(width));
    model.add(format("selu%d", i), Selu{});
    model.add(format("dropout%d", i), AlphaDropout{rate});
  }
  model.add(format("linear%d", hidden + 1), linear(model.classes()));
}

}  // namespace hetpipe
