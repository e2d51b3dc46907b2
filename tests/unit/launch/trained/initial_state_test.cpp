// SPDX-License-Identifier: Apache-2.0
#include "runtime/model/initial_state.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "base/random.h"
#include "launch/checkpoint/tensor_file.h"
#include "runtime/model/parameters.h"
#include "runtime/model/state_names.h"
#include "runtime/model/zoo.h"
#include "tests/unit/data/scratch_folder.h"

// A state_dict as a built-in model's initial values, and layers that are not trained.
namespace hetpipe {
namespace initial_state_test {

using ::testing::HasSubstr;

std::vector<float> values_of(const Model& model) {
  std::vector<float> all;
  for (const auto& layout : {ParameterLayout::parameters(model, 0, model.layer_count()),
                             ParameterLayout::statistics(model, 0, model.layer_count())}) {
    std::vector<float> values(static_cast<std::size_t>(layout.count()));
    fill_initial(layout, 2, values);
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

// A checkpoint of the model with other values, and these, flat.
Checkpoint checkpoint_of(const Model& model, std::vector<float>& flat) {
  Checkpoint checkpoint;
  const auto add = [&](const ParameterLayout& layout, std::vector<NamedTensor>& tensors) {
    for (const ParameterEntry& entry : layout.entries()) {
      if (!entry.is_own()) continue;
      NamedTensor tensor{entry.name,
                         entry.file_shape,
                         {},
                         order_of(model.layer(entry.layer).spec, entry.shape.shape)};
      for (std::int64_t e = 0; e < entry.count; ++e) {
        tensor.values.push_back(random_normal(77, flat.size()));
        flat.push_back(tensor.values.back());
      }
      tensors.push_back(std::move(tensor));
    }
  };
  add(ParameterLayout::parameters(model, 0, model.layer_count()), checkpoint.parameters);
  add(ParameterLayout::statistics(model, 0, model.layer_count()), checkpoint.statistics);
  return checkpoint;
}

TEST(InitialState, IsWhatWasExported) {
  struct Case {
    const char* model;
    Shape sample;
  };
  for (const Case& of : {Case{"lenet-bn", {8, 8, 1}}, Case{"resnet-18", {28, 28, 3}},
                         Case{"gpt2-tiny", {6}}, Case{"gnmt-tiny", {6}}}) {
    SCOPED_TRACE(of.model);
    const ScratchFolder folder;
    const std::string file = folder / "a.safetensors";
    Model model = make_model(of.model, of.sample, 7);
    const std::uint64_t fingerprint = model.fingerprint();
    std::vector<float> flat;
    write_safetensors(file, torch_tensors(checkpoint_of(model, flat), ExportSlots::no), {});
    model.set_initial(initial_state(model, file, true));
    EXPECT_EQ(values_of(model), flat);
    EXPECT_EQ(model.fingerprint(), fingerprint);
    EXPECT_EQ(model.initial()->remark(), "");
    // By way of a training's choice.
    const ModelChoice choice{.name = of.model, .init = file};
    EXPECT_EQ(values_of(make_model(choice, of.sample, 7)), flat);
  }
}

// PyTorch's linear weight is (out, in); here it is (in, out).
TEST(InitialState, ALinearWeightIsTurned) {
  const ScratchFolder folder;
  const std::string file = folder / "a.safetensors";
  write_safetensors(file, {{"fc.weight", {3, 2}, {1, 2, 3, 4, 5, 6}}, {"fc.bias", {3}, {7, 8, 9}}},
                    {});
  Model model("small", {1, 1, 2}, 3);
  model.add("flatten", Flatten{});
  model.add("fc", Linear{3});
  model.add("loss", SoftmaxCrossEntropy{});
  model.set_initial(initial_state(model, file, true));
  EXPECT_EQ(values_of(model), (std::vector<float>{1, 3, 5, 2, 4, 6, 7, 8, 9}));
}

TEST(InitialState, AHeadForOtherClassesIsLeftAsItWas) {
  const ScratchFolder folder;
  const std::string file = folder / "a.safetensors";
  const Model ten = make_model("lenet", {8, 8, 1}, 10);
  Model four = make_model("lenet", {8, 8, 1}, 4);
  std::vector<float> flat;
  write_safetensors(file, torch_tensors(checkpoint_of(ten, flat), ExportSlots::no), {});
  const std::vector<float> drawn = values_of(four);
  four.set_initial(initial_state(four, file, true));
  EXPECT_EQ(four.initial()->remark(), "not taken from " + file +
                                          ", which has them for other classes: linear2.weight, "
                                          "linear2.bias");
  const std::vector<float> values = values_of(four);
  const auto body = ParameterLayout::parameters(four, 0, four.layer_count() - 2).count();
  ASSERT_GT(body, 0);
  EXPECT_TRUE(std::equal(values.begin(), values.begin() + body, flat.begin()));
  EXPECT_TRUE(std::equal(values.begin() + body, values.end(), drawn.begin() + body));
}

std::string refused(const Model& model, const std::string& file, bool whole) {
  try {
    initial_state(model, file, whole);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(InitialState, SaysWhatDoesNotFit) {
  const ScratchFolder folder;
  const std::string file = folder / "a.safetensors";
  const Model model = make_model("mlp", {4, 4, 1}, 10);
  std::vector<float> flat;
  std::vector<ExportTensor> tensors = torch_tensors(checkpoint_of(model, flat), ExportSlots::no);
  ASSERT_EQ(tensors[0].name, "linear1.weight");
  tensors.push_back({"extra", {1}, {0}});
  tensors.erase(tensors.begin() + 1);
  write_safetensors(file, tensors, {});
  EXPECT_THAT(refused(model, file, true), HasSubstr("lacks 'linear1.bias'"));
  EXPECT_THAT(refused(model, file, true), HasSubstr("holds 'extra', which model 'mlp' does not"));
  EXPECT_EQ(refused(model, file, false), "");
  EXPECT_THAT(refused(make_model("mlp", {5, 4, 1}, 10), file, false),
              HasSubstr("holds 'linear1.weight' of shape (256, 16) (model 'mlp' has (256, 20))"));
  EXPECT_THAT(refused(make_model("gpt2-tiny", {4}, 10), file, false), HasSubstr("holds no tensor"));
}

TEST(Freeze, LayersByName) {
  const ModelChoice choice{.name = "lenet-bn", .freeze = {"conv*", "bn1"}};
  const Model model = make_model(choice, {8, 8, 1}, 10);
  std::vector<std::string> frozen;
  const auto layout = ParameterLayout::parameters(model, 0, model.layer_count());
  for (const ParameterEntry& entry : layout.entries()) {
    if (entry.frozen) frozen.push_back(entry.name);
  }
  EXPECT_EQ(frozen,
            (std::vector<std::string>{"conv1/weight", "bn1/scale", "bn1/shift", "conv2/weight"}));
  EXPECT_EQ(model.fingerprint(), make_model("lenet-bn", {8, 8, 1}, 10).fingerprint());
}

TEST(Freeze, RefusesPatternsWithoutLayers) {
  const auto refusal = [](const std::vector<std::string>& patterns) {
    try {
      make_model(ModelChoice{.name = "lenet-bn", .freeze = patterns}, {8, 8, 1}, 10);
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(refusal({"relu*"}), HasSubstr("--freeze: 'relu*' matches no layer"));
  EXPECT_THAT(refusal({"conv9"}), HasSubstr("'conv9' matches no layer"));
  EXPECT_THAT(refusal({"*"}), HasSubstr("leaves nothing"));
}

}  // namespace initial_state_test
}  // namespace hetpipe
