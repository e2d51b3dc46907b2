// SPDX-License-Identifier: Apache-2.0
#include "runtime/model/zoo.h"

#include <cmath>
#include <functional>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "runtime/model/graph/import.h"
#include "runtime/model/initial_state.h"
#include "runtime/model/vision/vision.h"
#include "runtime/model/zoo_text.h"

namespace hetpipe {
namespace {

// Images through two hidden layers, e.g. 784-256-128-10.
void build_mlp(Model& model) {
  model.add("flatten", Flatten{});
  model.add("linear1", Linear{256});
  model.add("relu1", Relu{});
  model.add("linear2", Linear{128});
  model.add("relu2", Relu{});
  model.add("linear3", Linear{model.classes()});
}

// Self-normalising network (Klambauer et al. 2017): hidden layers of `width` with SELU and alpha
// dropout, LeCun's normal initial weights. It has no batch norm, so it is at its best with samples
// of mean 0 and variance 1.
void build_snn_mlp(Model& model, int hidden, int width, float rate) {
  // Weights of variance 1/fan_in.
  const auto linear = [&](int features) {
    const Shape in = model.output_shape(model.layer_count() - 1, 1);
    return Linear{.output_features = features,
                  .deviation = static_cast<float>(1 / std::sqrt(static_cast<double>(in[1])))};
  };
  model.add("flatten", Flatten{});
  for (int i = 1; i <= hidden; ++i) {
    model.add(format("linear%d", i), linear(width));
    model.add(format("selu%d", i), Selu{});
    model.add(format("dropout%d", i), AlphaDropout{rate});
  }
  model.add(format("linear%d", hidden + 1), linear(model.classes()));
}

// Two convolutions and two linear layers in the manner of LeCun et al., "Gradient-based learning
// applied to document recognition" (1998), with ReLU, max pooling and a little dropout.
void build_lenet(Model& model, bool normalized) {
  // A batch norm's shift makes the bias before it useless.
  const auto convolution = [&](const std::string& number, int channels, int kernel) {
    model.add("conv" + number, Convolution{.output_channels = channels,
                                           .kernel = kernel,
                                           .padding = kernel / 2,
                                           .bias = !normalized});
    if (normalized) model.add("bn" + number, BatchNorm{});
    model.add("relu" + number, Relu{});
    model.add("pool" + number, MaxPool{});
  };
  convolution("1", 16, 5);
  convolution("2", 32, 3);
  model.add("flatten", Flatten{});
  model.add("linear1", Linear{.output_features = 128, .bias = !normalized});
  if (normalized) model.add("bn3", BatchNorm{});
  model.add("relu3", Relu{});
  model.add("dropout", Dropout{0.1f});
  model.add("linear2", Linear{model.classes()});
}

// He et al., "Deep residual learning for image recognition" (2015), section 4.2: three stages of
// `blocks` basic blocks with 16, 32 and 64 channels, 6*blocks + 2 layers with weights on the
// longest way. Where the shape changes the shortcut is a 1x1 convolution with batch norm (option
// B).
void build_resnet(Model& model, int blocks) {
  const auto convolution = [&](const std::string& conv, const std::string& norm, int input,
                               Convolution spec) {
    spec.bias = false;
    return model.add(norm, BatchNorm{}, {model.add(conv, spec, {input})});
  };
  int x = convolution("stem.conv", "stem.bn", kSamples, {.output_channels = 16, .padding = 1});
  x = model.add("stem.relu", Relu{}, {x});
  for (int stage = 0; stage < 3; ++stage) {
    const int channels = 16 << stage;
    for (int block = 0; block < blocks; ++block) {
      const std::string name = format("stage%d.block%d.", stage, block);
      const bool narrows = stage > 0 && block == 0;
      const int stride = narrows ? 2 : 1;
      int y = convolution(name + "conv1", name + "bn1", x,
                          {.output_channels = channels, .stride = stride, .padding = 1});
      y = model.add(name + "relu1", Relu{}, {y});
      y = convolution(name + "conv2", name + "bn2", y, {.output_channels = channels, .padding = 1});
      const int shortcut =
          narrows ? convolution(name + "shortcut.conv", name + "shortcut.bn", x,
                                {.output_channels = channels, .kernel = 1, .stride = stride})
                  : x;
      x = model.add(name + "add", Add{}, {y, shortcut});
      x = model.add(name + "relu2", Relu{}, {x});
    }
  }
  model.add("pool", GlobalAveragePool{});
  model.add("linear", Linear{model.classes()});
}

struct ZooModel {
  std::string name;
  std::int64_t smallest;  // rows and columns of a sample
  std::string reason;
  std::function<void(Model&)> build;  // all but the loss
};

const std::vector<ZooModel>& zoo() {
  constexpr const char* kDeepResnet = "its last stage but one needs two rows and columns";
  constexpr const char* kVgg = "it halves rows and columns five times";
  constexpr const char* kInception = "its windows without padding leave nothing of smaller samples";
  static const std::vector<ZooModel> models = {
      {"mlp", 1, "", build_mlp},
      {"lenet", 4, "it halves rows and columns twice", [](Model& m) { build_lenet(m, false); }},
      {"lenet-bn", 4, "it halves rows and columns twice", [](Model& m) { build_lenet(m, true); }},
      {"resnet-8", 8, "its last 3x3 convolutions need two rows and columns",
       [](Model& m) { build_resnet(m, 1); }},
      {"resnet-14", 8, "its last 3x3 convolutions need two rows and columns",
       [](Model& m) { build_resnet(m, 2); }},
      {"resnet-20", 8, "its last 3x3 convolutions need two rows and columns",
       [](Model& m) { build_resnet(m, 3); }},
      {"resnet-18", 17, kDeepResnet, [](Model& m) { build_deep_resnet(m, 18); }},
      {"resnet-50", 17, kDeepResnet, [](Model& m) { build_deep_resnet(m, 50); }},
      {"resnet-101", 17, kDeepResnet, [](Model& m) { build_deep_resnet(m, 101); }},
      {"resnet-152", 17, kDeepResnet, [](Model& m) { build_deep_resnet(m, 152); }},
      {"vgg-16", 32, kVgg, [](Model& m) { build_vgg(m, 16); }},
      {"vgg-19", 32, kVgg, [](Model& m) { build_vgg(m, 19); }},
      {"inception-v3", 75, kInception, build_inception_v3},
      {"inception-v4", 75, kInception, build_inception_v4},
      {"amoebanet", 32, "it halves rows and columns five times",
       [](Model& m) { build_amoebanet(m, 18, 208); }},
      {"snn-mlp", 1, "", [](Model& m) { build_snn_mlp(m, 8, 256, 0.05f); }},
  };
  return models;
}

}  // namespace

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const ZooModel& entry : zoo()) names.push_back(entry.name);
  for (std::string& name : text_model_names()) names.push_back(std::move(name));
  return names;
}

namespace {

Model exported_model(const ModelChoice& choice, const Shape& sample, int classes) {
  Model model = import_model(
      choice.name, {.loss = choice.loss, .init = choice.init, .whole_init = choice.whole_init});
  if (model.sample_shape() != sample) {
    throw UserError("model '" + model.name() + "'",
                    "samples of shape " + to_string(sample) + " (it was exported for " +
                        to_string(model.sample_shape()) +
                        "). Give such data, or export it for these.");
  }
  if (classes > model.classes() && model.classes() > 0) {
    throw UserError("model '" + model.name() + "'",
                    format("%d classes (its output has %d). Give data of fewer, or export a model "
                           "with more.",
                           classes, model.classes()));
  }
  return model;
}

}  // namespace

std::string model_name(const ModelChoice& choice) {
  return is_exported_model(choice.name) ? exported_name(choice.name) : choice.name;
}

namespace {

Model built_in_model(const ModelChoice& choice, const Shape& sample, int classes) {
  const std::string& name = choice.name;
  if (name.find('/') != std::string::npos) {
    throw UserError("", "model '" + name +
                            "' (no folder with a graph.json is there). Export a model with "
                            "hetpipe_export.py, or choose a built-in one.");
  }
  if (std::optional<Model> text = make_text_model(name, sample, classes)) return *std::move(text);
  for (const ZooModel& entry : zoo()) {
    if (entry.name != name) continue;
    Model model(name, sample, classes);
    if (sample.rank() != 3) {
      throw UserError("model '" + name + "'", "samples of shape " + to_string(sample) +
                                                  " (this model takes images). Give them as "
                                                  "(H, W, C).");
    }
    if (sample[0] < entry.smallest || sample[1] < entry.smallest) {
      throw UserError("model '" + name + "'",
                      format("samples of %lld x %lld are smaller than %lld x %lld (%s). Take "
                             "larger samples or another model, such as mlp.",
                             static_cast<long long>(sample[0]), static_cast<long long>(sample[1]),
                             static_cast<long long>(entry.smallest),
                             static_cast<long long>(entry.smallest), entry.reason.c_str()));
    }
    entry.build(model);
    model.add("loss", SoftmaxCrossEntropy{});
    model.check_complete();
    return model;
  }
  throw UserError("", unknown("model", name, model_names()) + ". Choose a known one.");
}

// What options say of its loss.
void choose_loss(Model& model, const LossChoice& loss) {
  const std::string what = "is for exported models ('" + model.name() + "' is built in). ";
  if (loss.name != kAutomaticLoss && loss.name != "cross-entropy") {
    throw UserError("--loss", loss.name + " " + what + "Leave it out: it learns by cross-entropy.");
  }
  if (!loss.auxiliary.empty()) {
    throw UserError("--auxiliary-weights", what + "Leave it out: it has one output.");
  }
  if (!loss.skips && loss.class_weights.empty()) return;
  if (!loss.class_weights.empty() &&
      static_cast<int>(loss.class_weights.size()) != model.classes()) {
    throw UserError("--class-weights",
                    format("%zu numbers, where the data have %d classes. Give one for each.",
                           loss.class_weights.size(), model.classes()));
  }
  model.weigh_labels(loss.skips, {loss.class_weights.begin(), loss.class_weights.end()});
}

}  // namespace

Model make_model(const ModelChoice& choice, const Shape& sample, int classes) {
  const bool exported = is_exported_model(choice.name);
  Model model =
      exported ? exported_model(choice, sample, classes) : built_in_model(choice, sample, classes);
  if (!exported) {
    choose_loss(model, choice.loss);
    if (!choice.init.empty()) {
      model.set_initial(initial_state(model, choice.init, choice.whole_init));
    }
  }
  model.freeze("--freeze", choice.freeze);
  return model;
}

}  // namespace hetpipe
