// SPDX-License-Identifier: Apache-2.0
#include "kernels/reference/reference_device.h"
#include "kernels/joint_loss.h"

#include <cmath>
#include <new>

#include "base/text.h"
#include "kernels/clip_step.h"
#include "kernels/host_device.h"
#include "kernels/optimizer_step.h"
#include "kernels/reference/damping.h"

namespace hetpipe {
namespace {

constexpr std::align_val_t kAlignment{64};

class ReferenceDevice final : public HostDevice {
 public:
  ReferenceDevice() : HostDevice("reference") {}

  std::string description() const override { return "reference device (plain loops), 1 thread"; }

  std::byte* allocate(Stream&, std::size_t bytes, MemoryKind kind) override {
    memory().take(bytes, kind);
    void* block = ::operator new(bytes, kAlignment, std::nothrow);
    if (block == nullptr) {
      memory().give_back(bytes, kind);
      throw OutOfMemory(format("reference device: no %s of memory left for %s. In use:\n%s",
                               format_bytes(static_cast<double>(bytes)).c_str(), to_string(kind),
                               memory().ledger().c_str()));
    }
    return static_cast<std::byte*>(block);
  }
  void release(Stream&, std::byte* block, std::size_t bytes, MemoryKind kind) noexcept override {
    ::operator delete(block, kAlignment);
    memory().give_back(bytes, kind);
  }

  std::unique_ptr<LayerKernel> make_kernel(const LayerSpec& spec, const std::vector<Shape>& inputs,
                                           std::uint64_t key) override {
    if (const auto* joint = std::get_if<JointLoss>(&spec)) {
      infer_shapes(spec, inputs);
      return make_joint_loss(*this, *joint, inputs);
    }
    return make_reference_kernel(spec, inputs, key);
  }

  void fill(Stream&, float* x, float value, std::int64_t count) override {
    for (std::int64_t i = 0; i < count; ++i) x[i] = value;
  }
  void add(Stream&, float* y, const float* x, std::int64_t count) override {
    for (std::int64_t i = 0; i < count; ++i) y[i] += x[i];
  }
  void sum(Stream&, float* z, const float* x, const float* y, std::int64_t count) override {
    for (std::int64_t i = 0; i < count; ++i) z[i] = x[i] + y[i];
  }
  void scale(Stream&, float* y, float factor, std::int64_t count) override {
    for (std::int64_t i = 0; i < count; ++i) y[i] *= factor;
  }
  void sum_of_squares(Stream&, double* sum, const float* x, std::int64_t count) override {
    *sum = 0;
    for (std::int64_t first = 0; first < count; first += kSquaresBlock) {
      *sum += squares_of_block(x + first, std::min(kSquaresBlock, count - first));
    }
  }
  void limit_norm(Stream& stream, float* y, const double* squares, std::int64_t parts,
                  double max_norm, std::int64_t count) override {
    const float factor = clip_factor(squares, parts, max_norm);
    if (factor < 1) scale(stream, y, factor, count);
  }

  void sgd(Stream&, float* delta, float* velocity, const float* gradient, const float* weights,
           const SgdOptions& o, std::int64_t count) override {
    ensure(velocity != nullptr || o.momentum == 0, "momentum needs a velocity");
    for (std::int64_t i = 0; i < count; ++i) {
      const float g = gradient[i] + o.weight_decay * weights[i];
      float v = g;
      if (velocity != nullptr) v = velocity[i] = o.momentum * velocity[i] + g;
      delta[i] = -(o.rate * (o.nesterov ? g + o.momentum * v : v));
    }
  }

  void adam(Stream&, float* delta, float* first, float* second, const float* gradient,
            const float* weights, const AdamOptions& options, std::int64_t step,
            std::int64_t count) override {
    ensure(step >= 1, "Adam's steps count from 1");
    const AdamStep s = adam_step(options, step);
    const float shrink = s.rate * s.decay;
    for (std::int64_t i = 0; i < count; ++i) {
      const float g = s.decoupled ? gradient[i] : gradient[i] + s.decay * weights[i];
      first[i] = s.beta1 * first[i] + s.rest1 * g;
      second[i] = s.beta2 * second[i] + s.rest2 * (g * g);
      const float mean = s.direction(first[i], g);
      const float deviation = std::sqrt(second[i] / s.bias2);
      const float change = s.rate * mean / (deviation + s.epsilon);
      delta[i] = -(s.decoupled ? change + shrink * weights[i] : change);
    }
  }
  void rmsprop(Stream&, float* delta, float* second, const float* gradient, const float* weights,
               const RmspropOptions& o, std::int64_t count) override {
    const float rest = rest_of(o.alpha);
    for (std::int64_t i = 0; i < count; ++i) {
      const float g = gradient[i] + o.weight_decay * weights[i];
      second[i] = o.alpha * second[i] + rest * (g * g);
      delta[i] = -(o.rate * g / (std::sqrt(second[i]) + o.epsilon));
    }
  }
  void scale_by_trust(Stream& stream, float* update, const double* squares, float rate,
                      std::int64_t count) override {
    scale(stream, update, trust_factor(squares, rate), count);
  }

  void damp(Stream& stream, float* d, const DampedMatrix& m, const DampOptions& options) override {
    for (int k = 0; k < options.directions_of(m); ++k) damp_direction(stream, d, m, options, k);
  }

  void damp_direction(Stream& stream, float* d, const DampedMatrix& m, const DampOptions& options,
                      int direction) {
    const bool first = m.inputs_first;
    std::vector<float> start;
    for (std::int64_t i = 0; i < m.inputs(); ++i) {
      start.push_back(damp_start(i, direction, options.step));
    }
    const std::vector<float> y = first ? reference::down_columns(d, m, start.data())
                                       : reference::along_rows(d, m, start.data());
    std::vector<float> x =
        first ? reference::along_rows(d, m, y.data()) : reference::down_columns(d, m, y.data());
    double squares = 0;
    sum_of_squares(stream, &squares, x.data(), m.inputs());
    scale(stream, x.data(), unit_factor(squares), m.inputs());
    const std::vector<float> z =
        first ? reference::down_columns(d, m, x.data()) : reference::along_rows(d, m, x.data());
    for (std::int64_t i = 0; i < m.rows * m.columns; ++i) {
      const std::int64_t row = i / m.columns, column = i % m.columns;
      const auto in = static_cast<std::size_t>(first ? row : column);
      const auto out = static_cast<std::size_t>(first ? column : row);
      d[i] -= options.factor * z[out] * x[in];
    }
  }

  void look_ahead(Stream&, float* ahead, const float* weights, const float* x, float factor,
                  std::int64_t count) override {
    for (std::int64_t i = 0; i < count; ++i) ahead[i] = weights[i] - factor * x[i];
  }
  void look_ahead_adam(Stream&, float* ahead, const float* weights, const float* first,
                       const float* second, const AdamOptions& options, std::int64_t step,
                       float factor, std::int64_t count) override {
    ensure(step >= 1, "Adam's steps count from 1");
    const AdamStep s = adam_step(options, step);
    const float shrink = factor * s.decay;
    for (std::int64_t i = 0; i < count; ++i) {
      const float mean = first[i] / s.bias1;
      const float deviation = std::sqrt(second[i] / s.bias2);
      const float change = factor * mean / (deviation + s.epsilon);
      ahead[i] = weights[i] - (s.decoupled ? change + shrink * weights[i] : change);
    }
  }
};

}  // namespace

std::unique_ptr<Device> make_reference_device() { return std::make_unique<ReferenceDevice>(); }

}  // namespace hetpipe
