// SPDX-License-Identifier: Apache-2.0
// Table prediction-error: how far predicted weights are from what they predict, against the newest
// weights taken in their place (SpecTrain: arXiv 1809.02839; XPipe: arXiv 1911.04610).
// prediction_error [--smallest] RAW.json DATA.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <deque>
#include <map>

#include "base/error.h"
#include "base/text.h"
#include "benchmarks/smallest.h"
#include "benchmarks/statistics.h"
#include "kernels/devices.h"
#include "runtime/data/idx.h"
#include "runtime/data/prefetch.h"
#include "runtime/data/sampler.h"
#include "runtime/model/parameters.h"
#include "runtime/model/zoo.h"
#include "runtime/pipeline/optimizer.h"
#include "runtime/pipeline/stage.h"

namespace hetpipe::bench {
namespace {

constexpr int kBatch = 64;
constexpr int kAhead = 3;    // updates looked ahead, at most
constexpr int kWindow = 10;  // predictions at each point of training
constexpr std::uint64_t kSeed = 1;

template <class T>
Buffer upload(Device& device, Stream& stream, const std::vector<T>& values, MemoryKind kind) {
  Buffer buffer(device, stream, values.size() * sizeof(T), kind);
  device.copy(stream, buffer.data(), reinterpret_cast<const std::byte*>(values.data()),
              buffer.bytes());
  return buffer;
}

Buffer initial(const ParameterLayout& layout, Device& device, Stream& stream) {
  std::vector<float> values(static_cast<std::size_t>(layout.count()));
  fill_initial(layout, kSeed, values);
  return upload(device, stream, values, MemoryKind::weights);
}

// Serial training of one model, update by update.
class Training {
 public:
  Training(const Model& model, const Dataset& data, const OptimizerOptions& options)
      : data_(data),
        device_(make_device("cpu", 1)),
        stream_(device_->make_stream()),
        stage_(model, {model.layer_count()}, StageId{0}, kSeed, *device_, *stream_),
        optimizer_(options, *device_, *stream_, stage_.parameters().count()),
        sampler_(kSeed, data.size, {kBatch}, 0, 2 * data.size),
        weights_(initial(stage_.parameters(), *device_, *stream_)),
        statistics_(initial(stage_.statistics(), *device_, *stream_)) {
    optimizer_.prepare_to_look_ahead();
  }

  void update() {
    const Minibatch p = updates_;
    std::vector<float> images(static_cast<std::size_t>(kBatch * data_.sample_values()));
    std::vector<std::int32_t> labels;
    Pass pass;
    pass.samples = kBatch;
    const SampleRange range = sampler_.samples(0, p);
    for (int i = 0; i < kBatch; ++i) {
      pass.keys.push_back(sampler_.key(range.first + i));
      const std::int64_t index = pass.keys.back().index;
      data_.copy_sample({0, index}, images.data() + i * data_.sample_values());
      labels.push_back(data_.labels[static_cast<std::size_t>(index)]);
    }
    pass.images = upload(*device_, *stream_, images, MemoryKind::activations);
    pass.labels = upload(*device_, *stream_, labels, MemoryKind::activations);
    stage_.forward(pass, weights_.as<float>(), statistics_.as<float>(), Mode::train);
    const float* losses = pass.outputs.back().as<float>();
    loss_ = 0;
    for (int i = 0; i < kBatch; ++i) loss_ += static_cast<double>(losses[i]) / kBatch;
    stage_.drop_what_backward_does_not_need(pass);
    Buffer gradient(*device_, *stream_, weights_.bytes(), MemoryKind::gradients);
    stage_.backward(pass, weights_.as<float>(), gradient.as<float>());
    optimizer_.update(p, p + 1, gradient, weights_.as<float>());
    device_->add(*stream_, weights_.as<float>(), gradient.as<float>(), count());
    stream_->synchronize();
    ++updates_;
  }

  Minibatch updates() const { return updates_; }
  double loss() const { return loss_; }
  std::vector<float> weights() const {
    return {weights_.as<float>(), weights_.as<float>() + count()};
  }
  // What the executor would compute with, `steps` updates ahead.
  std::vector<float> predicted(int steps) {
    Buffer ahead(*device_, *stream_, weights_.bytes(), MemoryKind::versions);
    optimizer_.look_ahead(updates_, steps, updates_, weights_.as<float>(), ahead.as<float>());
    stream_->synchronize();
    return {ahead.as<float>(), ahead.as<float>() + count()};
  }

 private:
  std::int64_t count() const { return stage_.parameters().count(); }

  const Dataset& data_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  Stage stage_;
  Optimizer optimizer_;
  Sampler sampler_;
  Buffer weights_, statistics_;
  Minibatch updates_ = 0;
  double loss_ = 0;
};

double root_mean_square(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    sum += difference * difference;
  }
  return std::sqrt(sum / static_cast<double>(a.size()));
}

// At one update, waiting for the weights that come to be.
struct Guess {
  Minibatch at;
  Minibatch point;
  std::vector<float> newest;
  std::array<std::vector<float>, kAhead> predicted;
};

struct Errors {
  std::vector<double> predicted, newest;
};

// Predictions are made from each point on, a number of updates.
void run(const Model& model, const Dataset& data, const OptimizerOptions& options,
         const std::vector<Minibatch>& points, RawValues& raw) {
  Training training(model, data, options);
  std::map<std::pair<Minibatch, int>, Errors> errors;  // (point, s)
  std::map<Minibatch, double> losses;
  std::deque<Guess> waiting;
  while (training.updates() < points.back() + kWindow + kAhead) {
    const Minibatch now = training.updates();
    for (const Minibatch point : points) {
      if (now < point || now >= point + kWindow) continue;
      Guess& guess = waiting.emplace_back(Guess{now, point, training.weights(), {}});
      for (int s = 1; s <= kAhead; ++s) {
        guess.predicted[static_cast<std::size_t>(s - 1)] = training.predicted(s);
      }
    }
    training.update();
    const std::vector<float> weights = training.weights();
    for (const Guess& guess : waiting) {
      const auto s = static_cast<int>(training.updates() - guess.at);
      Errors& of = errors[{guess.point, s}];
      of.predicted.push_back(
          root_mean_square(guess.predicted[static_cast<std::size_t>(s - 1)], weights));
      of.newest.push_back(root_mean_square(guess.newest, weights));
      losses[guess.point] = training.loss();
    }
    while (!waiting.empty() && training.updates() - waiting.front().at >= kAhead) {
      waiting.pop_front();
    }
  }
  for (const auto& [where, of] : errors) {
    const auto& [point, s] = where;
    const std::string what = format("%s, after %lld updates, s = %d", options.name.c_str(),
                                    static_cast<long long>(point), s);
    raw.add(what + ", predicted", of.predicted);
    raw.add(what + ", newest", of.newest);
    int closer = 0;
    for (std::size_t i = 0; i < of.newest.size(); ++i) closer += of.predicted[i] < of.newest[i];
    std::printf("| %s | %lld | %.3f | %d | %s | %s | %s | %d of %zu |\n", options.name.c_str(),
                static_cast<long long>(point), losses[point], s,
                to_string(spread_of(of.predicted), "%.2f", 1e5).c_str(),
                to_string(spread_of(of.newest), "%.2f", 1e5).c_str(),
                to_string(spread_of(ratios(of.predicted, of.newest)), "%.3f").c_str(), closer,
                of.newest.size());
  }
}

}  // namespace
}  // namespace hetpipe::bench

int main(int argc, char** argv) {
  using namespace hetpipe;
  std::vector<Minibatch> points{10, 50, 100, 200, 400, 800};
  if (bench::take_smallest(argc, argv)) points = {1};
  if (argc != 3) {
    std::fprintf(stderr, "usage: bench_prediction_error [--smallest] RAW.json DATA\n");
    return 2;
  }
  try {
    const Dataset data = load_dataset(argv[2], Split::train, Parts::both);
    const Model model = make_model("lenet", {data.height, data.width, data.channels}, data.classes);
    bench::RawValues raw(argv[1]);
    std::printf(
        "| optimizer | updates | loss | s | RMSE of the predicted, 1e-5 | RMSE of the newest, "
        "1e-5 | ratio | predicted closer |\n|---|---|---|---|---|---|---|---|\n");
    bench::run(model, data, {.name = "sgd-momentum", .learning_rate = 0.01, .momentum = 0.9},
               points, raw);
    bench::run(model, data, {.name = "adam", .learning_rate = 0.001}, points, raw);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_prediction_error: %s\n", error.what());
    return 2;
  }
  return 0;
}
