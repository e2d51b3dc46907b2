// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "base/file.h"
#include "base/text.h"
#include "kernels/devices.h"
#include "launch/checkpoint/tensor_file.h"
#include "runtime/model/initial_state.h"
#include "runtime/model/parameters.h"
#include "runtime/model/zoo.h"
#include "runtime/pipeline/whole_model.h"
#include "tests/unit/data/scratch_folder.h"

// Built-in models with the weights of a file, against PyTorch 2.15 (torchvision 0.29, transformers
// 5.23) with the same ones. Element e of tensor i, in the order of sorted names without
// num_batches_tracked and lm_head.weight, is made of s = sin(0.7 e^2 / (e + 3) + 1.3 e + i): with
// two extents or more sqrt(2 / elements of a row) s; of other ".weight" and "var" 1 + 0.3 s; of
// others 0.1 s. Computed in double and stored as float.
namespace hetpipe {
namespace pretrained_test {

struct Named {
  std::string name;
  std::vector<std::int64_t> shape;
};

void write_state(const std::string& file, std::vector<Named> tensors) {
  std::ranges::sort(tensors, {}, &Named::name);
  std::vector<ExportTensor> all;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Named& of = tensors[i];
    std::int64_t count = 1;
    for (const std::int64_t side : of.shape) count *= side;
    const bool scales = of.name.ends_with(".weight") || of.name.ends_with("var");
    ExportTensor tensor{of.name, of.shape, {}};
    for (std::int64_t k = 0; k < count; ++k) {
      const auto e = static_cast<double>(k);
      const double s = std::sin(0.7 * e * e / (e + 3) + 1.3 * e + static_cast<double>(i));
      const auto row = static_cast<double>(count) / static_cast<double>(of.shape[0]);
      const double value = of.shape.size() >= 2 ? std::sqrt(2 / row) * s
                           : scales             ? 1 + 0.3 * s
                                                : 0.1 * s;
      tensor.values.push_back(static_cast<float>(value));
    }
    all.push_back(std::move(tensor));
  }
  write_safetensors(file, all, {});
}

// With the values of the file, on the CPU.
std::vector<float> logits_of(Model model, const std::string& file,
                             const std::vector<float>& sample) {
  model.set_initial(initial_state(model, file, true));
  std::vector<std::vector<float>> flat;
  for (const auto& layout : {ParameterLayout::parameters(model, 0, model.layer_count()),
                             ParameterLayout::statistics(model, 0, model.layer_count())}) {
    fill_initial(layout, 1, flat.emplace_back(static_cast<std::size_t>(layout.count())));
  }
  Batch batch;
  batch.count = 1;
  batch.keys = {{0, 0}};
  batch.images = Samples(SampleType::floats, sample.size(), ordinary_memory);
  std::ranges::copy(sample, batch.images.as<float>().begin());
  const auto device = make_device("cpu", 1);
  return WholeModel(model, flat[0], flat[1], *device).predict(batch);
}

void expect_near(const std::vector<float>& found, std::size_t first,
                 const std::vector<double>& expected) {
  ASSERT_LE(first + expected.size(), found.size());
  for (std::size_t c = 0; c < expected.size(); ++c) {
    EXPECT_NEAR(static_cast<double>(found[first + c]), expected[c], 1e-4) << c;
  }
}

// Of images of one channel; their pixels are sin(0.9 e). The names and shapes are PyTorch's own.
TEST(Pretrained, ResNet18OfTorchvision) {
  std::vector<Named> tensors;
  std::istringstream lines(read_file(HETPIPE_SOURCE_DIR "/tests/golden/state-dict/resnet-18.txt"));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t space = line.find(" [");
    Named tensor{line.substr(0, space), {}};
    if (tensor.name.ends_with("num_batches_tracked")) continue;
    const std::string sides = line.substr(space + 2, line.size() - space - 3);
    for (const std::string& side : split(sides, ',')) tensor.shape.push_back(std::stoll(side));
    tensors.push_back(std::move(tensor));
  }
  ASSERT_EQ(tensors.size(), 102u);
  const ScratchFolder folder;
  write_state(folder / "a.safetensors", tensors);
  std::vector<float> image;
  for (int e = 0; e < 28 * 28; ++e) image.push_back(static_cast<float>(std::sin(0.9 * e)));
  expect_near(logits_of(make_model("resnet-18", {28, 28, 1}, 10), folder / "a.safetensors", image),
              0,
              {0.562199, 0.860864, 1.055431, 1.001867, 1.047296, 1.242788, 1.170255, 1.039939,
               1.143660, 1.059945});
}

// GPT2LMHeadModel(GPT2Config(vocab_size=7, n_positions=6, n_embd=64, n_layer=4, n_head=4)).
TEST(Pretrained, Gpt2OfTransformers) {
  for (const std::string prefix : {"transformer.", ""}) {
    SCOPED_TRACE("prefix '" + prefix + "'");
    std::vector<Named> tensors{{"wte.weight", {7, 64}},
                               {"wpe.weight", {6, 64}},
                               {"ln_f.weight", {64}},
                               {"ln_f.bias", {64}}};
    for (int layer = 0; layer < 4; ++layer) {
      const std::string of = format("h.%d.", layer);
      const std::vector<Named> block{{"ln_1.weight", {64}},
                                     {"ln_1.bias", {64}},
                                     {"attn.c_attn.weight", {64, 192}},
                                     {"attn.c_attn.bias", {192}},
                                     {"attn.c_proj.weight", {64, 64}},
                                     {"attn.c_proj.bias", {64}},
                                     {"ln_2.weight", {64}},
                                     {"ln_2.bias", {64}},
                                     {"mlp.c_fc.weight", {64, 256}},
                                     {"mlp.c_fc.bias", {256}},
                                     {"mlp.c_proj.weight", {256, 64}},
                                     {"mlp.c_proj.bias", {64}}};
      for (const Named& tensor : block) tensors.push_back({of + tensor.name, tensor.shape});
    }
    for (Named& tensor : tensors) tensor.name.insert(0, prefix);
    const ScratchFolder folder;
    write_state(folder / "a.safetensors", tensors);
    const std::vector<float> logits =
        logits_of(make_model("gpt2-tiny", {6}, 7), folder / "a.safetensors", {3, 1, 4, 1, 5, 2});
    expect_near(logits, 5 * 7,
                {-1.237638, 7.038618, -6.470425, 1.804370, 3.961879, -7.254052, 6.054465});
    expect_near(logits, 2 * 7,
                {-3.925143, 8.062666, -5.274067, -0.826982, 6.378887, -7.957389, 4.611007});
  }
}

// An exported model: a head for other classes stays as it was exported, and layers are frozen by
// their modules' names.
TEST(Pretrained, AnExportedModel) {
  const ScratchFolder folder;
  const std::string file = folder / "a.safetensors";
  const std::string net = HETPIPE_SOURCE_DIR "/tests/models/net";
  const Model plain = make_model(ModelChoice{.name = net}, {28, 28, 1}, 10);
  std::vector<ExportTensor> tensors;
  const auto before = ParameterLayout::parameters(plain, 0, plain.layer_count());
  for (const ParameterEntry& entry : before.entries()) {
    std::string name = entry.name;
    std::ranges::replace(name, '/', '.');
    ExportTensor tensor{name, entry.file_shape, {}};
    if (tensor.shape[0] == 10) tensor.shape[0] = 3;
    std::int64_t count = 1;
    for (const std::int64_t side : tensor.shape) count *= side;
    tensor.values.assign(static_cast<std::size_t>(count), 0.25f);
    tensors.push_back(std::move(tensor));
  }
  write_safetensors(file, tensors, {});
  const Model model =
      make_model(ModelChoice{.name = net, .init = file, .whole_init = false, .freeze = {"stem*"}},
                 {28, 28, 1}, 10);
  EXPECT_THAT(model.initial()->remark(), testing::HasSubstr("for other classes: "));
  EXPECT_EQ(model.fingerprint(), plain.fingerprint());
  const auto layout = ParameterLayout::parameters(model, 0, model.layer_count());
  int heads = 0;
  for (std::size_t i = 0; i < layout.entries().size(); ++i) {
    const ParameterEntry& entry = layout.entries()[i];
    EXPECT_EQ(entry.frozen, entry.name.starts_with("stem")) << entry.name;
    const bool is_head = entry.file_shape[0] == 10;
    heads += is_head ? 1 : 0;
    for (std::size_t e = 0; e < entry.given.size(); ++e) {
      ASSERT_EQ(entry.given[e], is_head ? before.entries()[i].given[e] : 0.25f) << entry.name;
    }
  }
  EXPECT_EQ(heads, 2);
}

}  // namespace pretrained_test
}  // namespace hetpipe
