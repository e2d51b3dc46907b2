// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"
#include "runtime/model/vision/vision.h"

// Sizes of a 299x299 sample beside each part; figures are the paper's.
namespace hetpipe {
namespace {

const AveragePool kSmoothingInside{.kernel = 3, .stride = 1, .padding = 1, .count_padding = false};
const Sides kRow{1, 7}, kColumn{7, 1};

class InceptionV4 {
 public:
  explicit InceptionV4(Model& model) : model_(model), units_(model, 1e-3f) {}

  // Figure 3: 299x299x3 to 35x35x384.
  int stem() const {
    int x = units_.chain("stem.a.", kSamples, {valid(32, 3, 2), valid(32, 3), same(64, 3)});
    x = concat("stem.b", {model_.add("stem.b.pool", kHalving, {x}),
                          units_.chain("stem.b.3x3.", x, {valid(96, 3, 2)})});
    x = concat("stem.c",
               {units_.chain("stem.c.3x3.", x, {same(64, 1), valid(96, 3)}),
                units_.chain("stem.c.7x7.", x,
                             {same(64, 1), same(64, kRow), same(64, kColumn), valid(96, 3)})});
    return concat("stem.d", {units_.chain("stem.d.3x3.", x, {valid(192, 3, 2)}),
                             model_.add("stem.d.pool", kHalving, {x})});
  }
  // Figure 4: 35x35x384.
  int a(const std::string& name, int x) const {
    return concat(name, {units_.chain(name + ".1x1.", x, {same(96, 1)}),
                         units_.chain(name + ".3x3.", x, {same(64, 1), same(96, 3)}),
                         units_.chain(name + ".5x5.", x, {same(64, 1), same(96, 3), same(96, 3)}),
                         smoothed(name, x, 96)});
  }
  // Figure 7 with k, l, m, n = 192, 224, 256, 384: 35x35 to 17x17x1024.
  int reduction_a(const std::string& name, int x) const {
    return concat(name,
                  {units_.chain(name + ".3x3.", x, {valid(384, 3, 2)}),
                   units_.chain(name + ".5x5.", x, {same(192, 1), same(224, 3), valid(256, 3, 2)}),
                   model_.add(name + ".pool", kHalving, {x})});
  }
  // Figure 5: 17x17x1024.
  int b(const std::string& name, int x) const {
    return concat(
        name, {units_.chain(name + ".1x1.", x, {same(384, 1)}),
               units_.chain(name + ".7x7.", x, {same(192, 1), same(224, kRow), same(256, kColumn)}),
               units_.chain(name + ".13x13.", x,
                            {same(192, 1), same(192, kColumn), same(224, kRow), same(224, kColumn),
                             same(256, kRow)}),
               smoothed(name, x, 128)});
  }
  // Figure 8: 17x17 to 8x8x1536.
  int reduction_b(const std::string& name, int x) const {
    return concat(
        name, {units_.chain(name + ".3x3.", x, {same(192, 1), valid(192, 3, 2)}),
               units_.chain(name + ".7x7.", x,
                            {same(256, 1), same(256, kRow), same(320, kColumn), valid(320, 3, 2)}),
               model_.add(name + ".pool", kHalving, {x})});
  }
  // Figure 6: 8x8x1536.
  int c(const std::string& name, int x) const {
    const Sides row{1, 3}, column{3, 1};
    const int narrow = units_.chain(name + ".3x3.", x, {same(384, 1)});
    const int deep =
        units_.chain(name + ".5x5.", x, {same(384, 1), same(448, column), same(512, row)});
    return concat(name, {units_.chain(name + ".1x1.", x, {same(256, 1)}),
                         units_.rectified(name + ".3x3.row", narrow, same(256, row)),
                         units_.rectified(name + ".3x3.column", narrow, same(256, column)),
                         units_.rectified(name + ".5x5.row", deep, same(256, row)),
                         units_.rectified(name + ".5x5.column", deep, same(256, column)),
                         smoothed(name, x, 256)});
  }

  // Figure 9.
  void build() const {
    int x = stem();
    for (int i = 0; i < 4; ++i) x = a(format("a%d", i), x);
    x = reduction_a("reduction-a", x);
    for (int i = 0; i < 7; ++i) x = b(format("b%d", i), x);
    x = reduction_b("reduction-b", x);
    for (int i = 0; i < 3; ++i) x = c(format("c%d", i), x);
    model_.add("pool", GlobalAveragePool{}, {x});
    model_.add("dropout", Dropout{0.2f});
    model_.add("linear", Linear{model_.classes()});
  }

 private:
  int concat(const std::string& name, std::vector<int> inputs) const {
    return model_.add(name + ".concat", Concat{}, std::move(inputs));
  }
  int smoothed(const std::string& name, int x, int channels) const {
    const int pool = model_.add(name + ".pool", kSmoothingInside, {x});
    return units_.chain(name + ".pooled.", pool, {same(channels, 1)});
  }

  Model& model_;
  ConvolutionUnits units_;
};

}  // namespace

void build_inception_v4(Model& model) { InceptionV4(model).build(); }

}  // namespace hetpipe
