// SPDX-License-Identifier: Apache-2.0
#include "runtime/model/vision/vision.h"

// Sizes of a 299x299 sample beside each part. `mixed` are the names of torchvision.
namespace hetpipe {
namespace {

const AveragePool kSmoothing{.kernel = 3, .stride = 1, .padding = 1};

class InceptionV3 {
 public:
  explicit InceptionV3(Model& model) : model_(model), units_(model, 1e-3f) {}

  // Figure 5: 35x35.
  int a(const std::string& name, int x, int pooled_channels) const {
    return concat(name, {units_.chain(name + ".1x1", x, {same(64, 1)}),
                         units_.chain(name + ".5x5", x, {same(48, 1), same(64, 5)}),
                         units_.chain(name + ".3x3", x, {same(64, 1), same(96, 3), same(96, 3)}),
                         smoothed(name, x, pooled_channels)});
  }
  // Figure 10: 35x35 to 17x17.
  int b(const std::string& name, int x) const {
    return concat(name,
                  {units_.chain(name + ".3x3", x, {valid(384, 3, 2)}),
                   units_.chain(name + ".5x5", x, {same(64, 1), same(96, 3), valid(96, 3, 2)}),
                   halved(name, x)});
  }
  // Figure 6: 17x17, n = 7.
  int c(const std::string& name, int x, int inner) const {
    const Sides row{1, 7}, column{7, 1};
    return concat(name, {units_.chain(name + ".1x1", x, {same(192, 1)}),
                         units_.chain(name + ".7x7", x,
                                      {same(inner, 1), same(inner, row), same(192, column)}),
                         units_.chain(name + ".13x13", x,
                                      {same(inner, 1), same(inner, column), same(inner, row),
                                       same(inner, column), same(192, row)}),
                         smoothed(name, x, 192)});
  }
  // 17x17 to 8x8.
  int d(const std::string& name, int x) const {
    return concat(
        name, {units_.chain(name + ".3x3", x, {same(192, 1), valid(320, 3, 2)}),
               units_.chain(name + ".7x7", x,
                            {same(192, 1), same(192, {1, 7}), same(192, {7, 1}), valid(192, 3, 2)}),
               halved(name, x)});
  }
  // Figure 7: 8x8, branches that widen at their ends.
  int e(const std::string& name, int x) const {
    const int narrow = units_.chain(name + ".3x3", x, {same(384, 1)});
    const int deep = units_.chain(name + ".5x5", x, {same(448, 1), same(384, 3)});
    const auto row_and_column = [&](const std::string& branch, int y) {
      return concat(branch, {units_.rectified(branch + ".row", y, same(384, {1, 3})),
                             units_.rectified(branch + ".column", y, same(384, {3, 1}))});
    };
    return concat(name, {units_.chain(name + ".1x1", x, {same(320, 1)}),
                         row_and_column(name + ".3x3", narrow), row_and_column(name + ".5x5", deep),
                         smoothed(name, x, 192)});
  }

  void build() const {
    int x = units_.chain("stem.a", kSamples, {valid(32, 3, 2), valid(32, 3), same(64, 3)});
    x = model_.add("stem.pool1", kHalving, {x});                   // 73x73
    x = units_.chain("stem.b", x, {valid(80, 1), valid(192, 3)});  // 71x71
    x = model_.add("stem.pool2", kHalving, {x});                   // 35x35
    x = a("mixed5d", a("mixed5c", a("mixed5b", x, 32), 64), 64);   // 288 channels
    x = b("mixed6a", x);                                           // 17x17x768
    x = c("mixed6c", c("mixed6b", x, 128), 160);
    x = c("mixed6e", c("mixed6d", x, 160), 192);
    x = e("mixed7c", e("mixed7b", d("mixed7a", x)));  // 8x8x2048
    model_.add("pool", GlobalAveragePool{}, {x});
    model_.add("dropout", Dropout{0.5f});
    model_.add("linear", Linear{model_.classes()});
  }

 private:
  int concat(const std::string& name, std::vector<int> inputs) const {
    return model_.add(name + ".concat", Concat{}, std::move(inputs));
  }
  int halved(const std::string& name, int x) const {
    return model_.add(name + ".pool", kHalving, {x});
  }
  int smoothed(const std::string& name, int x, int channels) const {
    const int pool = model_.add(name + ".pool", kSmoothing, {x});
    return units_.chain(name + ".pooled", pool, {same(channels, 1)});
  }

  Model& model_;
  ConvolutionUnits units_;
};

}  // namespace

void build_inception_v3(Model& model) { InceptionV3(model).build(); }

}  // namespace hetpipe
