// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/budget_counts.h"

#include <dlfcn.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <variant>

#include "base/error.h"
#include "base/text.h"
#include "kernels/buffer.h"
#include "kernels/devices.h"
#include "kernels/layer.h"
#include "runtime/pipeline/timed_model.h"

namespace hetpipe::bench {
namespace {

constexpr int kCounted = 4;  // kernels, plans, products, copies: tests/cuda/double/double.h

// What the double has been asked for so far.
class Launches {
 public:
  explicit Launches(const std::string& module) {
    void* const loaded = dlopen(module.c_str(), RTLD_NOW | RTLD_NOLOAD);
    if (loaded != nullptr) {
      count_ = reinterpret_cast<Count>(dlsym(loaded, "hetpipe_double_count"));
    }
    if (count_ == nullptr) throw SystemError(module + ": is no double of CUDA");
  }
  double sum() const {
    std::int64_t all = 0;
    for (int i = 0; i < kCounted; ++i) all += count_(i);
    return static_cast<double>(all);
  }
  template <class Call>
  double of(const Call& call) const {
    const double before = sum();
    call();
    return sum() - before;
  }

 private:
  using Count = std::int64_t (*)(int);
  Count count_ = nullptr;
};

// "h3.attn.qkv", "layer1.2.conv1": blocks that follow one another are alike.
std::string without_block(const std::string& name) {
  const std::vector<std::string> parts = split(name, '.');
  std::string text;
  for (const std::string& part : parts) {
    std::string own = part;
    const bool block = &part != &parts.back() && !part.starts_with("layer");
    if (block) {
      while (!own.empty() && std::isdigit(static_cast<unsigned char>(own.back())) != 0)
        own.pop_back();
      if (own.size() < part.size()) own += '*';
    }
    text += (text.empty() ? "" : ".") + own;
  }
  return text;
}

std::string name_of(const Model& model, const LayerGroup& group) {
  std::string name = without_block(model.layer(group.first).name);
  if (group.end > group.first + 1) name += " .. " + without_block(model.layer(group.last()).name);
  return name;
}

// Attention that is not fused writes its scores (fp32) and their softmax and reads them again: 12
// bytes for each score forward. Backward the softmax is read twice, its gradient written and read
// in fp32, that of the scores written and read twice: 18.
constexpr double kForwardScoreBytes = 12, kBackwardScoreBytes = 18;

double scores_of(const Model& model, int layer, int batch) {
  const auto* const attention = std::get_if<SelfAttention>(&model.layer(layer).spec);
  if (attention == nullptr) return 0;
  const double tokens = static_cast<double>(model.input_shapes(layer, 1).front()[1]);
  return batch * attention->heads * tokens * tokens;
}

struct Counter {
  const Model& model;
  TimedModel& timed;
  int batch;
  bool two_bytes, fused_attention;

  double bytes_of_output(int layer) const {
    return static_cast<double>(layer == kSamples
                                   ? model.batch_shape(batch).elements() * (two_bytes ? 2 : 4)
                                   : timed.output_bytes(layer));
  }

  // Each tensor once: what a group reads from outside, what it leaves, and its weights, of which
  // products of two bytes make a copy that they read.
  Work least(const LayerGroup& group) const {
    Work work{0, bytes_of_output(group.last()), 0};
    for (const int input : group.inputs) work.bytes += bytes_of_output(input);
    for (int l = group.first; l < group.end; ++l) {
      work.flops += timed.shapes(l).forward_flops;
      for (const ParameterShape& p : model.shapes(l, 1).parameters) {
        work.bytes += (two_bytes ? 8.0 : 4.0) * static_cast<double>(p.shape.elements());
      }
    }
    return work;
  }

  void add(BudgetRow& row, const LayerGroup& group) const {
    const Work once = least(group);
    row.forward.flops += once.flops;
    row.forward.bytes += once.bytes;
    row.backward.bytes += 2 * once.bytes;  // each tensor and its gradient
    for (int l = group.first; l < group.end; ++l) {
      const double backward = timed.shapes(l).backward_flops;
      row.backward.flops += backward > 0 ? backward : 2 * timed.shapes(l).forward_flops;
      if (fused_attention) continue;
      row.forward.bytes += kForwardScoreBytes * scores_of(model, l, batch);
      row.backward.bytes += kBackwardScoreBytes * scores_of(model, l, batch);
    }
  }
};

std::int64_t weights_of(const Model& model) {
  return ParameterLayout::parameters(model, 0, model.layer_count()).count();
}

// As a stage updates: all weights in one call each of the rule and of the addition. Bytes as
// benchmarks/gpu_kernels.cpp counts them.
Work update_of(Device& device, std::int64_t count, bool adam, const Launches& launches) {
  const std::unique_ptr<Stream> stream = device.make_stream();
  const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(float);
  const Buffer a(device, *stream, bytes, MemoryKind::workspace);
  Work work{0, 0, 0};
  float* const x = a.as<float>();
  work.operations = launches.of([&] {
    if (adam) {
      device.adam(*stream, x, x, x, x, x, {}, 1, count);
    } else {
      device.sgd(*stream, x, x, x, x, {.rate = 0.1f, .momentum = 0.9f}, count);
    }
    device.add(*stream, x, x, count);
  });
  work.bytes = static_cast<double>(count) * ((adam ? 28 : 20) + 12);
  stream->synchronize();
  return work;
}

}  // namespace

std::optional<Budget> count_step(const std::string& module, const BudgetCard& card,
                                 const Model& model, int batch, Precision precision, bool adam) {
  setenv("HETPIPE_DOUBLE_CARD", format("%d.%d %.0f", card.major, card.minor, card.memory).c_str(),
         1);
  const auto device = make_device("cuda", 1, {.precision = precision, .plan_cache = {}});
  const Launches launches(module);
  try {
    Budget budget;
    budget.batch = batch;
    TimedModel timed(model, *device, batch);
    const auto pass = [&](const auto& forward, const auto& backward) {
      for (std::size_t i = 0; i < timed.groups().size(); ++i) forward(i);
      for (std::size_t i = timed.groups().size(); i-- > 0;) backward(i);
    };
    // Tables of layers come to the device, and plans are made.
    pass([&](std::size_t i) { timed.forward(i); }, [&](std::size_t i) { timed.backward(i); });
    budget.peak = device->memory().peak();
    std::vector<BudgetRow*> row_of(timed.groups().size());
    budget.rows.reserve(timed.groups().size());
    const Counter counter{model, timed, batch, two_bytes(precision), card.major >= 8};
    pass(
        [&](std::size_t i) {
          const std::string name = name_of(model, timed.groups()[i]);
          const auto found = std::find_if(budget.rows.begin(), budget.rows.end(),
                                          [&](const BudgetRow& row) { return row.name == name; });
          BudgetRow& row = found != budget.rows.end() ? *found : budget.rows.emplace_back();
          row.name = name;
          ++row.times;
          row_of[i] = &row;
          counter.add(row, timed.groups()[i]);
          row.forward.operations += launches.of([&] { timed.forward(i); });
        },
        [&](std::size_t i) {
          row_of[i]->backward.operations += launches.of([&] { timed.backward(i); });
        });
    budget.update.name = adam ? "update (adam)" : "update (sgd with momentum)";
    budget.update.times = 1;
    budget.update.forward = update_of(*device, weights_of(model), adam, launches);
    return budget;
  } catch (const OutOfMemory&) {
    return std::nullopt;
  }
}

}  // namespace hetpipe::bench
