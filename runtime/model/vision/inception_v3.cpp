// SPDX-License-Identifier: Apache-2.0
#include "runtime/model/vision/vision.h"

// Sizes of a 299x299 sample beside each part; names are those of torchvision's modules.
namespace hetpipe {
namespace {

const AveragePool kSmoothing{.kernel = 3, .stride = 1, .padding = 1};

class InceptionV3 {
 public:
  explicit InceptionV3(Model& model) : model_(model), units_(model, 1e-3f) {}

  // Figure 5: 35x35.
  int a(const std::string& name, int x, int pooled_channels) const {
    return concat(name, {branch(name + ".branch1x1", x, {same(64, 1)}),
                         branch(name + ".branch5x5", x, {same(48, 1), same(64, 5)}),
                         branch(name + ".branch3x3dbl", x, {same(64, 1), same(96, 3), same(96, 3)}),
                         smoothed(name, x, pooled_channels)});
  }
  // Figure 10: 35x35 to 17x17.
  int b(const std::string& name, int x) const {
    return concat(name,
                  {branch(name + ".branch3x3", x, {valid(384, 3, 2)}),
                   branch(name + ".branch3x3dbl", x, {same(64, 1), same(96, 3), valid(96, 3, 2)}),
                   halved(name + ".pool", x)});
  }
  // Figure 6: 17x17, n = 7.
  int c(const std::string& name, int x, int inner) const {
    const Sides row{1, 7}, column{7, 1};
    return concat(name, {branch(name + ".branch1x1", x, {same(192, 1)}),
                         branch(name + ".branch7x7", x,
                                {same(inner, 1), same(inner, row), same(192, column)}),
                         branch(name + ".branch7x7dbl", x,
                                {same(inner, 1), same(inner, column), same(inner, row),
                                 same(inner, column), same(192, row)}),
                         smoothed(name, x, 192)});
  }
  // 17x17 to 8x8.
  int d(const std::string& name, int x) const {
    return concat(name,
                  {branch(name + ".branch3x3", x, {same(192, 1), valid(320, 3, 2)}),
                   branch(name + ".branch7x7x3", x,
                          {same(192, 1), same(192, {1, 7}), same(192, {7, 1}), valid(192, 3, 2)}),
                   halved(name + ".pool", x)});
  }
  // Figure 7: 8x8, branches that widen at their ends.
  int e(const std::string& name, int x) const {
    const auto row_and_column = [&](const std::string& end, int y) {
      return concat(end, {units_.rectified(end + "a", y, same(384, {1, 3})),
                          units_.rectified(end + "b", y, same(384, {3, 1}))});
    };
    const std::string plain = name + ".branch3x3_", deep = name + ".branch3x3dbl_";
    const int narrow = units_.rectified(plain + "1", x, same(384, 1));
    const int narrower = units_.rectified(deep + "1", x, same(448, 1));
    const int narrowest = units_.rectified(deep + "2", narrower, same(384, 3));
    return concat(
        name, {branch(name + ".branch1x1", x, {same(320, 1)}), row_and_column(plain + "2", narrow),
               row_and_column(deep + "3", narrowest), smoothed(name, x, 192)});
  }

  void build() const {
    int x = units_.rectified("Conv2d_1a_3x3", kSamples, valid(32, 3, 2));
    x = units_.rectified("Conv2d_2a_3x3", x, valid(32, 3));
    x = halved("maxpool1", units_.rectified("Conv2d_2b_3x3", x, same(64, 3)));  // 73x73
    x = units_.rectified("Conv2d_3b_1x1", x, valid(80, 1));
    x = halved("maxpool2", units_.rectified("Conv2d_4a_3x3", x, valid(192, 3)));  // 35x35
    x = a("Mixed_5d", a("Mixed_5c", a("Mixed_5b", x, 32), 64), 64);               // 288 channels
    x = b("Mixed_6a", x);                                                         // 17x17x768
    x = c("Mixed_6c", c("Mixed_6b", x, 128), 160);
    x = c("Mixed_6e", c("Mixed_6d", x, 160), 192);
    x = e("Mixed_7c", e("Mixed_7b", d("Mixed_7a", x)));  // 8x8x2048
    model_.add("avgpool", GlobalAveragePool{}, {x});
    model_.add("dropout", Dropout{0.5f});
    model_.add("fc", Linear{model_.classes()});
  }

 private:
  int concat(const std::string& name, std::vector<int> inputs) const {
    return model_.add(name + ".concat", Concat{}, std::move(inputs));
  }
  // "NAME" of one unit, "NAME_1", "NAME_2" and so on of several.
  int branch(const std::string& name, int x, const std::vector<Convolution>& specs) const {
    if (specs.size() == 1) return units_.rectified(name, x, specs[0]);
    return units_.chain(name + "_", x, specs);
  }
  int halved(const std::string& name, int x) const { return model_.add(name, kHalving, {x}); }
  int smoothed(const std::string& name, int x, int channels) const {
    const int pool = model_.add(name + ".pool", kSmoothing, {x});
    return branch(name + ".branch_pool", pool, {same(channels, 1)});
  }

  Model& model_;
  ConvolutionUnits units_;
};

}  // namespace

void build_inception_v3(Model& model) { InceptionV3(model).build(); }

}  // namespace hetpipe
