// SPDX-License-Identifier: Apache-2.0
#include "runtime/pipeline/stage.h"

#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "kernels/devices.h"
#include "kernels/host_device.h"
#include "runtime/model/zoo.h"
#include "tests/end-to-end/serial_model.h"
#include "tests/unit/kernels/fusing_device.h"
#include "tests/unit/model/tiny_inception.h"

// Every way to cut a model into two and three stages gives the serial program's losses, statistics
// and gradients, bit for bit.
namespace hetpipe {
namespace stage_test {

constexpr std::uint64_t kSeed = 5;

// "fusing" computes in one go whatever may be.
std::unique_ptr<Device> device_named(const std::string& name) {
  if (name == "fusing") return std::make_unique<test::FusingDevice>(test::every_chain);
  return make_device(name, 1);
}

struct Samples {
  std::vector<float> images;
  std::vector<std::int32_t> labels;
  std::vector<SampleKey> keys;

  Samples(const Model& model, int count) {
    const auto elements =
        static_cast<std::uint64_t>(model.sample_shape().elements()) * static_cast<unsigned>(count);
    const auto vocabulary = static_cast<unsigned>(model.vocabulary());
    for (std::uint64_t e = 0; e < elements; ++e) {
      images.push_back(vocabulary == 0 ? random_normal(99, e)
                                       : static_cast<float>(random_bits(99, e) % vocabulary));
    }
    for (int i = 0; i < count * static_cast<int>(model.labels_per_sample()); ++i) {
      labels.push_back((5 * i + 1) % model.classes());
    }
    for (int i = 0; i < count; ++i) keys.push_back({2, 10 + i});
  }
};

// What one minibatch leaves behind; flat arrays of the whole model.
struct Outcome {
  std::vector<float> losses;
  std::vector<std::int32_t> correct;
  std::vector<float> statistics;
  std::vector<float> gradients;  // none in evaluation
  bool operator==(const Outcome&) const = default;
};

Outcome run_serial(const Model& model, Device& device, const Samples& samples, Mode mode) {
  SerialModel serial(model, device, kSeed);
  auto result = serial.forward(samples.images, samples.labels, samples.keys, mode);
  Outcome outcome{result.losses, result.correct, {}, {}};
  if (mode == Mode::train) outcome.gradients = serial.backward();
  outcome.statistics = serial.statistics();
  return outcome;
}

// The stages of one cut, played as the executor does, messages carried by hand.
struct How {
  bool apart = false;      // the inputs' gradient first, the weights' later
  bool recompute = false;  // the forward is computed once more before the backward
};

class Chain {
 public:
  Chain(const Model& model, const std::vector<int>& stage_end, Device& device, How how = {})
      : device_(device), how_(how), stream_(device.make_stream()) {
    for (std::size_t k = 0; k < stage_end.size(); ++k) {
      auto stage = std::make_unique<Stage>(model, stage_end, StageId{static_cast<int>(k)}, kSeed,
                                           device, *stream_);
      weights_.push_back(initial(stage->parameters()));
      statistics_.push_back(initial(stage->statistics()));
      stages_.push_back(std::move(stage));
    }
    for (const auto& stage : stages_) foreign_.push_back(foreign_of(*stage));
  }

  Outcome run(const Samples& samples, Mode mode) {
    Outcome outcome;
    std::vector<Pass> passes(stages_.size());
    for (std::size_t k = 0; k < stages_.size(); ++k) forward(passes, k, samples, mode, outcome);
    if (mode == Mode::train) {
      std::vector<std::vector<float>> gradients(stages_.size());
      for (std::size_t k = stages_.size(); k-- > 0;) gradients[k] = backward(passes, k);
      for (const auto& part : gradients)
        outcome.gradients.insert(outcome.gradients.end(), part.begin(), part.end());
    }
    for (const Buffer& statistics : statistics_) {
      const auto part = host<float>(statistics);
      outcome.statistics.insert(outcome.statistics.end(), part.begin(), part.end());
    }
    return outcome;
  }

 private:
  Buffer initial(const ParameterLayout& layout) {
    std::vector<float> values(static_cast<std::size_t>(layout.count()));
    fill_initial(layout, kSeed, values);
    return upload(values);
  }
  // Weights that other stages own.
  Buffer foreign_of(const Stage& stage) {
    std::vector<float> all;
    for (const ForeignParameter& foreign : stage.parameters().foreign()) {
      for (std::size_t k = 0; k < stages_.size(); ++k) {
        for (const ParameterEntry& entry : stages_[k]->parameters().entries()) {
          if (!entry.is_own() || entry.name != foreign.name) continue;
          const std::vector<float> own = host<float>(weights_[k]);
          all.insert(all.end(), own.begin() + entry.offset,
                     own.begin() + entry.offset + entry.count);
        }
      }
    }
    return upload(all);
  }
  StageWeights weights(std::size_t k) const {
    return {weights_[k].as<float>(), foreign_[k].as<float>()};
  }
  template <class T>
  Buffer upload(const std::vector<T>& values) {
    Buffer buffer(device_, *stream_, values.size() * sizeof(T), MemoryKind::workspace);
    if (!values.empty()) {
      device_.copy(*stream_, buffer.data(), std::as_bytes(std::span(values)).data(),
                   buffer.bytes());
      stream_->synchronize();
    }
    return buffer;
  }
  template <class T>
  std::vector<T> host(const Buffer& buffer) {
    std::vector<T> values(buffer.bytes() / sizeof(T));
    if (!values.empty()) {
      device_.copy(*stream_, std::as_writable_bytes(std::span(values)).data(), buffer.data(),
                   buffer.bytes());
      stream_->synchronize();
    }
    return values;
  }

  void forward(std::vector<Pass>& passes, std::size_t k, const Samples& samples, Mode mode,
               Outcome& outcome) {
    Stage& stage = *stages_[k];
    Pass& pass = passes[k];
    pass.samples = static_cast<std::int64_t>(samples.keys.size());
    pass.keys = samples.keys;
    if (stage.reads_samples()) pass.images = upload(samples.images);
    if (stage.has_loss()) pass.labels = upload(samples.labels);
    ASSERT_EQ(pass.activations_in.size(), stage.incoming().size());
    stage.forward(pass, weights(k), statistics_[k].as<float>(), mode);
    if (stage.has_loss()) {
      outcome.losses = host<float>(pass.outputs.back());
      outcome.correct = host<std::int32_t>(pass.correct);
    }
    for (const Transfer& transfer : stage.outgoing()) {
      Buffer packed(stage.device(), stage.stream(),
                    static_cast<std::size_t>(stage.transfer_bytes(transfer, pass.samples)),
                    MemoryKind::messages);
      EXPECT_EQ(
          stage.pack_activations(pass, transfer, 0, pass.samples, ElementType::fp32, packed.data()),
          packed.data() + packed.bytes());
      const auto to = static_cast<std::size_t>(transfer.to_stage);
      passes[to].activations_in.push_back(
          {counterpart(stages_[to]->incoming(), transfer), std::move(packed)});
    }
    if (mode != Mode::train) return;
    if (!how_.recompute) {
      stage.drop_what_backward_does_not_need(pass);
      return;
    }
    stage.drop_what_forward_makes(pass);
    stage.forward(pass, weights(k), statistics_[k].as<float>(), mode, Statistics::leave);
  }

  std::vector<float> backward(std::vector<Pass>& passes, std::size_t k) {
    Stage& stage = *stages_[k];
    // Whatever stood there before must not matter.
    const auto undefined = [&](std::int64_t count) {
      return upload(std::vector<float>(static_cast<std::size_t>(count),
                                       std::numeric_limits<float>::quiet_NaN()));
    };
    const Buffer own = undefined(stage.parameters().count());
    const Buffer uses = undefined(stage.parameters().use_count());
    const StageGradients gradients(own.as<float>(), uses.as<float>());
    for (const Transfer& transfer : stage.outgoing()) {
      Pass& later = passes[static_cast<std::size_t>(transfer.to_stage)];
      for (Packed& packed : later.gradients_out) {
        if (*packed.transfer == transfer)
          passes[k].gradients_in.push_back({&transfer, std::move(packed.data)});
      }
    }
    EXPECT_EQ(passes[k].gradients_in.size(), stage.outgoing().size());
    if (how_.apart) {
      stage.backward(passes[k], weights(k), nullptr, BackwardPart::inputs);
      stage.weight_gradient(passes[k], weights(k), gradients, Gradients::overwrite);
    } else {
      stage.backward(passes[k], weights(k), gradients);
    }
    std::vector<float> all = host<float>(own);
    const std::vector<float> parts = host<float>(uses);
    all.insert(all.end(), parts.begin(), parts.end());
    return all;
  }

  static const Transfer* counterpart(const std::vector<Transfer>& all, const Transfer& transfer) {
    const auto found = std::find(all.begin(), all.end(), transfer);
    EXPECT_NE(found, all.end());
    return &*found;
  }

  Device& device_;
  How how_;
  std::unique_ptr<Stream> stream_;
  std::vector<std::unique_ptr<Stage>> stages_;
  std::vector<Buffer> weights_, statistics_;
  std::vector<Buffer> foreign_;  // by stage
};

struct Seen {
  int cuts = 0;
  int several_tensors = 0;  // cuts with a transfer of more than one
  int skipped_stages = 0;   // cuts with a transfer past a whole stage
};

void expect_same(const Model& model, const std::vector<int>& stage_end, Device& device,
                 const Samples& samples, const Outcome& expected, Mode mode, Seen& seen) {
  ++seen.cuts;
  bool several = false, skipped = false;
  for (const Transfer& transfer : transfers(model.producers(), stage_end)) {
    several |= transfer.layers.size() > 1;
    skipped |= transfer.to_stage > transfer.from_stage + 1;
  }
  seen.several_tensors += several;
  seen.skipped_stages += skipped;
  const Outcome outcome = Chain(model, stage_end, device).run(samples, mode);
  std::string cut;
  for (int end : stage_end) cut += " " + std::to_string(end);
  EXPECT_EQ(outcome.losses, expected.losses) << "stages end at" << cut;
  EXPECT_EQ(outcome.correct, expected.correct) << "stages end at" << cut;
  EXPECT_TRUE(outcome.statistics == expected.statistics) << "statistics; stages end at" << cut;
  EXPECT_TRUE(outcome.gradients == expected.gradients) << "gradients; stages end at" << cut;
}

// On failure the cuts are named; a model's arrays are not printed.
Seen expect_every_cut(const Model& model, const std::string& device_name) {
  SCOPED_TRACE(model.name() + " on " + device_name);
  const auto device = device_named(device_name);
  const Samples samples(model, 3);
  const Outcome trained = run_serial(model, *device, samples, Mode::train);
  const Outcome evaluated = run_serial(model, *device, samples, Mode::evaluate);
  const int layers = model.layer_count();
  Seen seen;
  for (int a = 1; a < layers && !testing::Test::HasFailure(); ++a) {
    expect_same(model, {a, layers}, *device, samples, trained, Mode::train, seen);
    expect_same(model, {a, layers}, *device, samples, evaluated, Mode::evaluate, seen);
    for (int b = a + 1; b < layers; ++b) {
      expect_same(model, {a, b, layers}, *device, samples, trained, Mode::train, seen);
    }
  }
  EXPECT_EQ(seen.cuts, 2 * (layers - 1) + (layers - 1) * (layers - 2) / 2);
  EXPECT_EQ(device->memory().used(), 0u);
  return seen;
}

class EveryCut : public testing::TestWithParam<const char*> {};

TEST_P(EveryCut, OfAnMlp) { expect_every_cut(make_model("mlp", {3, 3, 1}, 4), GetParam()); }
TEST_P(EveryCut, OfAnLstmStack) { expect_every_cut(make_model("gnmt-tiny", {4}, 6), GetParam()); }
TEST_P(EveryCut, OfAnUntiedTransformer) {
  Model model("transformer", {5}, 7);
  model.add("wte", Embedding{.vocabulary = 7, .features = 8});
  const int x = model.add("wpe", PositionEmbedding{});
  model.add("ln1", LayerNorm{});
  model.add("qkv", Linear{24});
  model.add("attention", SelfAttention{2});
  model.add("drop", Dropout{0.2f});
  const int y = model.add("add1", Add{}, {5, x});
  model.add("fc", Linear{16});
  model.add("gelu", Gelu{});
  model.add("proj", Linear{8});
  model.add("add2", Add{}, {9, y});
  model.add("ln2", LayerNorm{});
  model.add("head", Linear{.output_features = 7, .bias = false, .transposed = true});
  model.add("loss", SoftmaxCrossEntropy{0.1f});
  expect_every_cut(model, GetParam());
}
TEST_P(EveryCut, OfLenet) { expect_every_cut(make_model("lenet", {6, 6, 1}, 4), GetParam()); }
TEST_P(EveryCut, OfLenetWithBatchNorm) {
  expect_every_cut(make_model("lenet-bn", {6, 6, 2}, 4), GetParam());
}
TEST_P(EveryCut, OfAResNet) {
  const Seen seen = expect_every_cut(make_model("resnet-8", {8, 8, 2}, 4), GetParam());
  EXPECT_GT(seen.several_tensors, 0);
  EXPECT_GT(seen.skipped_stages, 0);
}

TEST_P(EveryCut, OfBranchesThatAreConcatenated) {
  const Seen seen = expect_every_cut(tiny_inception(), GetParam());
  EXPECT_GT(seen.several_tensors, 0);
  EXPECT_GT(seen.skipped_stages, 0);
}

INSTANTIATE_TEST_SUITE_P(Devices, EveryCut, testing::Values("cpu", "reference", "fusing"),
                         [](const testing::TestParamInfo<const char*>& named) {
                           return std::string(named.param);
                         });

// A tensor with three consumers: floats add up differently in another order, which is the serial
// one's, from the last consumer to the first. A stage sums up what its own layers give before it
// sends, so the order is that wherever no middle stage holds two of the consumers.
TEST(Stage, SumsGradientsFromTheLastConsumerToTheFirst) {
  Model model("three-consumers", {5, 4, 2}, 3);
  model.add("conv1", Convolution{.output_channels = 6, .padding = 1});
  const int x = model.add("relu1", Relu{});
  const int y = model.add("conv2", Convolution{.output_channels = 6, .padding = 1}, {x});
  const int z = model.add("conv3", Convolution{.output_channels = 6, .padding = 1}, {x});
  model.add("add1", Add{}, {y, z});
  const int a = model.add("relu2", Relu{});
  const int last = model.add("add2", Add{}, {a, x});
  model.add("pool", GlobalAveragePool{});
  model.add("linear", Linear{3});
  model.add("loss", SoftmaxCrossEntropy{});
  for (const char* name : {"cpu", "reference"}) {
    const auto device = make_device(name, 1);
    const Samples samples(model, 4);
    const Outcome expected = run_serial(model, *device, samples, Mode::train);
    const int layers = model.layer_count();
    Seen seen;
    for (int first = 1; first < layers; ++first) {
      for (int second = first + 1; second < layers; ++second) {
        const bool two_in_the_middle = first > x && first <= y && second > z && second <= last;
        if (two_in_the_middle) continue;
        expect_same(model, {first, second, layers}, *device, samples, expected, Mode::train, seen);
      }
    }
    // Each consumer in a stage of its own.
    expect_same(model, {y, z, last, layers}, *device, samples, expected, Mode::train, seen);
    EXPECT_GT(seen.skipped_stages, 0);
  }
}

TEST(Stage, KnowsWhatItReadsAndHolds) {
  const Model model = make_model("lenet-bn", {6, 6, 1}, 4);
  const auto device = make_device("reference", 1);
  const auto stream = device->make_stream();
  const int layers = model.layer_count();
  const Stage front(model, {5, layers}, StageId{0}, kSeed, *device, *stream);
  const Stage back(model, {5, layers}, StageId{1}, kSeed, *device, *stream);
  EXPECT_TRUE(front.reads_samples());
  EXPECT_FALSE(front.has_loss());
  EXPECT_FALSE(back.reads_samples());
  EXPECT_TRUE(back.has_loss());
  EXPECT_TRUE(front.incoming().empty());
  EXPECT_EQ(front.outgoing(), back.incoming());
  EXPECT_EQ(front.parameters().count() + back.parameters().count(), model.parameter_count());
  // conv1 gives 6 x 6 x 16, its pool 3 x 3 x 16, conv2 3 x 3 x 32.
  ASSERT_EQ(front.outgoing().size(), 1u);
  EXPECT_EQ(front.transfer_bytes(front.outgoing()[0], 7), 7 * 3 * 3 * 32 * 4);
}

// Neither way to order the work changes a bit.
TEST(Stage, BackwardInTwoPartsAndForwardOnceMore) {
  for (const char* name : {"cpu", "reference", "fusing"}) {
    const auto device = device_named(name);
    for (const char* model_name : {"lenet-bn", "resnet-8", "gnmt-tiny", "gpt2-tiny"}) {
      const bool text = std::string(model_name).ends_with("tiny");
      const Model model = make_model(model_name, text ? Shape{4} : Shape{8, 8, 1}, 5);
      const int layers = model.layer_count();
      const Samples samples(model, 3);
      const std::vector<int> cut{layers / 3, layers / 2, layers};
      const Outcome expected = Chain(model, cut, *device).run(samples, Mode::train);
      for (const How how : {How{.apart = true}, How{.recompute = true}, How{true, true}}) {
        EXPECT_TRUE(Chain(model, cut, *device, how).run(samples, Mode::train) == expected)
            << model_name << " on " << name << (how.apart ? ", apart" : "")
            << (how.recompute ? ", computed again" : "");
      }
    }
    EXPECT_EQ(device->memory().used(), 0u);
  }
}

// Gradients of micro-batches add up one after another; one without samples adds nothing.
TEST(Stage, GradientsOfMicroBatchesAddUp) {
  const Model model = make_model("lenet-bn", {6, 6, 1}, 4);
  for (const char* name : {"reference", "fusing"}) {
    const auto device = device_named(name);
    const auto stream = device->make_stream();
    Stage stage(model, {model.layer_count()}, StageId{0}, kSeed, *device, *stream);
    const auto count = static_cast<std::size_t>(stage.parameters().count());
    std::vector<float> weights(count);
    fill_initial(stage.parameters(), kSeed, weights);
    std::vector<float> statistics(static_cast<std::size_t>(stage.statistics().count()));
    const auto gradient_of = [&](int samples_count, std::vector<float>& sum, Gradients mode,
                                 bool apart) {
      const Samples samples(model, std::max(samples_count, 1));
      Pass pass;
      pass.samples = samples_count;
      pass.loss_samples = 5;
      pass.keys.assign(samples.keys.begin(), samples.keys.begin() + samples_count);
      const auto upload = [&](const auto& values, std::size_t each) {
        Buffer buffer(*device, *stream, static_cast<std::size_t>(samples_count) * each * 4,
                      MemoryKind::workspace);
        device->copy(*stream, buffer.data(), reinterpret_cast<const std::byte*>(values.data()),
                     buffer.bytes());
        return buffer;
      };
      pass.images = upload(samples.images, 36);
      pass.labels = upload(samples.labels, 1);
      stage.forward(pass, weights.data(), statistics.data(), Mode::train);
      if (apart) {
        stage.backward(pass, weights.data(), nullptr, BackwardPart::inputs);
        stage.weight_gradient(pass, weights.data(), sum.data(), mode);
      } else {
        stage.backward(pass, weights.data(), sum.data(), BackwardPart::whole, mode);
      }
    };
    for (const bool apart : {false, true}) {
      const auto nan = std::numeric_limits<float>::quiet_NaN();
      std::vector<float> two(count, nan), three(count, nan), sum(count, nan);
      gradient_of(2, two, Gradients::overwrite, apart);
      gradient_of(3, three, Gradients::overwrite, apart);
      gradient_of(2, sum, Gradients::overwrite, apart);
      gradient_of(0, sum, Gradients::accumulate, apart);
      gradient_of(3, sum, Gradients::accumulate, apart);
      for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(sum[i], two[i] + three[i]) << i;
      gradient_of(0, sum, Gradients::overwrite, apart);
      EXPECT_EQ(sum, std::vector<float>(count, 0.0f));
    }
  }
}

// One stage takes minibatches of different sizes (the last of a training is short).
TEST(Stage, TakesAnyNumberOfSamples) {
  const Model model = make_model("lenet-bn", {6, 6, 1}, 4);
  const auto device = make_device("cpu", 1);
  for (int count : {4, 2, 4, 3}) {
    const Samples samples(model, count);
    Chain chain(model, {3, 8, model.layer_count()}, *device);
    EXPECT_TRUE(chain.run(samples, Mode::train) == run_serial(model, *device, samples, Mode::train))
        << count;
  }
}

}  // namespace stage_test
}  // namespace hetpipe
