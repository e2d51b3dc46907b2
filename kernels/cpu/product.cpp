// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/algebra.h"
#include "kernels/cpu/matrix_operand.h"
#include "kernels/cpu/pointwise_loops.h"
#include "kernels/cpu/threads.h"
#include "kernels/host_device.h"
#include "kernels/reference/algebra_sums.h"

namespace hetpipe {
namespace {

// Strides of the output over batch..., rows, columns.
LoopNumbers output_strides(const Product& p) {
  const LoopNumbers loops = reference::joined({p.batch, {p.rows, p.columns}});
  LoopNumbers strides(loops.size());
  std::int64_t stride = 1;
  for (std::size_t i = loops.size(); i-- > 0;) {
    const std::size_t loop = p.order.empty() ? i : static_cast<std::size_t>(p.order[i]);
    strides[loop] = stride;
    stride *= loops[loop];
  }
  return strides;
}

// A product for each batch of each sample; these are dealt to the threads.
class ProductKernel final : public LayerKernel {
 public:
  ProductKernel(const Product& spec, const std::vector<Shape>& inputs, CpuContext& context)
      : spec_(spec), samples_(inputs[0][0]), context_(context) {
    for (const Shape& in : inputs) elements_.push_back(in.elements() / samples_);
    a_ = MatrixOperand(spec_.a, spec_.batch, spec_.rows, spec_.inner, by_sample(spec_.a));
    b_ = MatrixOperand(spec_.b, spec_.batch, spec_.inner, spec_.columns, by_sample(spec_.b));
    const std::int64_t batches = reference::product_of(spec_.batch);
    c_ = MatrixOperand(output_strides(spec_), spec_.batch, spec_.rows, spec_.columns,
                       batches * spec_.rows * spec_.columns);
  }

  void forward(Stream& stream, const ForwardArguments& args) override {
    const float* const a = source(spec_.a, args);
    const float* const b = source(spec_.b, args);
    const auto packed = [](const MatrixOperand& o) { return o.packed() ? o.floats() : 0; };
    const std::int64_t floats_of_batch = packed(a_) + packed(b_) + packed(c_);
    for_each_batch(stream, floats_of_batch,
                   [&](std::int64_t n, std::int64_t batch, float* scratch) {
                     const Matrix left = a_.view(a, n, batch, scratch);
                     const Matrix right = b_.view(b, n, batch, scratch + packed(a_));
                     if (c_.packed()) {
                       float* const values = scratch + packed(a_) + packed(b_);
                       multiply(spec_.rows, spec_.columns, spec_.inner, left, right, 0, values,
                                spec_.columns, spec_.scale);
                       c_.store(floats(args.output), n, batch, values);
                     } else {
                       multiply_to(c_.target(floats(args.output), n, batch), spec_.rows,
                                   spec_.columns, spec_.inner, left, right, 0, spec_.scale);
                     }
                   });
  }

  void backward(Stream& stream, const BackwardArguments& args) override {
    const float* const a = source(spec_.a, args);
    const float* const b = source(spec_.b, args);
    const float* const dy = floats(args.output_gradient);
    // da = dy b', db = a' dy
    const auto left = [&](const MatrixTarget& to, std::int64_t n, std::int64_t batch,
                          float* scratch) {
      multiply_to(to, spec_.rows, spec_.inner, spec_.columns, c_.view(dy, n, batch, scratch),
                  transposed(b_.view(b, n, batch, scratch + c_.floats())), 0, spec_.scale);
    };
    const auto right = [&](const MatrixTarget& to, std::int64_t n, std::int64_t batch,
                           float* scratch) {
      multiply_to(to, spec_.inner, spec_.columns, spec_.rows,
                  transposed(a_.view(a, n, batch, scratch)),
                  c_.view(dy, n, batch, scratch + a_.floats()), 0, spec_.scale);
    };
    for (std::size_t i = 0; i < elements_.size(); ++i) {
      if (float* const dx = wanted(args.input_gradients, i)) {
        input_gradient(stream, i, dx, left, right);
      }
    }
    for (std::size_t p = 0; p < spec_.parameters.size(); ++p) {
      if (float* const d = wanted(args.parameter_gradients, p)) {
        parameter_gradient(p, d, left, right);
      }
    }
  }

 private:
  std::int64_t by_sample(const Operand& o) const {
    return o.source == Source::input ? elements_[static_cast<std::size_t>(o.index)] : 0;
  }
  template <class Arguments>
  const float* source(const Operand& o, const Arguments& a) const {
    const auto i = static_cast<std::size_t>(o.index);
    return o.source == Source::input       ? (i < a.inputs.size() ? floats(a.inputs[i]) : nullptr)
           : o.source == Source::parameter ? a.parameters[i]
                                           : spec_.constants[i].data();
  }
  std::int64_t all_floats() const { return a_.floats() + b_.floats() + c_.floats(); }

  // body(sample, batch, scratch) of each; a thread has scratch of its own, of so many floats.
  template <class Body>
  void for_each_batch(Stream& stream, std::int64_t scratch_floats, const Body& body) const {
    const std::int64_t units = samples_ * c_.batches();
    const std::int64_t workers = std::min<std::int64_t>(context_.threads, units);
    const Buffer scratch(context_.device, stream,
                         static_cast<std::size_t>(workers * scratch_floats) * sizeof(float),
                         MemoryKind::workspace);
    parallel_for(context_.threads, workers, [&](std::int64_t w) {
      for (std::int64_t u = w; u < units; u += workers) {
        body(u / c_.batches(), u % c_.batches(), scratch.as<float>() + w * scratch_floats);
      }
    });
  }
  static bool is(const Operand& o, Source source, std::size_t index) {
    return o.source == source && static_cast<std::size_t>(o.index) == index;
  }

  template <class Left, class Right>
  void input_gradient(Stream& stream, std::size_t i, float* dx, const Left& left,
                      const Right& right) {
    const bool of_a = is(spec_.a, Source::input, i), of_b = is(spec_.b, Source::input, i);
    const OperandReads& r = reads(i);
    if (!r.all || !r.once) {
      parallel_pieces(
          context_.threads, samples_ * elements_[i],
          [&](std::int64_t first, std::int64_t count) { std::fill_n(dx + first, count, 0.0f); });
    }
    if (r.once) {
      for_each_batch(stream, all_floats(), [&](std::int64_t n, std::int64_t batch, float* scratch) {
        if (of_a) write(a_, dx, n, batch, scratch, left);
        if (of_b) write(b_, dx, n, batch, scratch, right);
      });
      return;
    }
    parallel_for(context_.threads, samples_, [&](std::int64_t n) {
      std::vector<double> sums(static_cast<std::size_t>(elements_[i]), 0.0);
      if (of_a) sum(a_, sums, n, left);
      if (of_b) sum(b_, sums, n, right);
      loops::round_sums(dx + n * elements_[i], sums.data(), elements_[i]);
    });
  }
  // Sample after sample.
  template <class Left, class Right>
  void parameter_gradient(std::size_t p, float* d, const Left& left, const Right& right) const {
    const std::int64_t elements = spec_.parameters[p].shape.elements();
    std::vector<double> sums(static_cast<std::size_t>(elements), 0.0);
    for (std::int64_t n = 0; n < samples_; ++n) {
      if (is(spec_.a, Source::parameter, p)) sum(a_, sums, n, left);
      if (is(spec_.b, Source::parameter, p)) sum(b_, sums, n, right);
    }
    loops::round_sums(d, sums.data(), elements);
  }

  template <class Compute>
  void write(const MatrixOperand& o, float* dx, std::int64_t n, std::int64_t batch, float* scratch,
             const Compute& compute) const {
    if (!o.packed()) {
      compute(o.target(dx, n, batch), n, batch, scratch);
      return;
    }
    std::vector<float> values(static_cast<std::size_t>(o.floats()));
    compute({values.data(), o.columns(), false}, n, batch, scratch);
    o.store(dx, n, batch, values.data());
  }
  template <class Compute>
  void sum(const MatrixOperand& o, std::vector<double>& sums, std::int64_t n,
           const Compute& compute) const {
    std::vector<float> values(static_cast<std::size_t>(o.floats() + all_floats()));
    for (std::int64_t batch = 0; batch < o.batches(); ++batch) {
      compute({values.data(), o.columns(), false}, n, batch, values.data() + o.floats());
      o.add(sums.data(), batch, values.data());
    }
  }

  const OperandReads& reads(std::size_t i) {
    if (reads_.empty()) reads_.resize(elements_.size());
    if (!reads_[i]) {
      std::vector<const MatrixOperand*> own;
      if (is(spec_.a, Source::input, i)) own.push_back(&a_);
      if (is(spec_.b, Source::input, i)) own.push_back(&b_);
      reads_[i] = reads_of(elements_[i], own);
    }
    return *reads_[i];
  }

  Product spec_;
  std::int64_t samples_;
  CpuContext& context_;
  std::vector<std::int64_t> elements_;  // of inputs
  MatrixOperand a_, b_, c_;
  std::vector<std::optional<OperandReads>> reads_;
};

}  // namespace

std::unique_ptr<LayerKernel> make_product(CpuContext& context, const Product& spec,
                                          const std::vector<Shape>& inputs) {
  return std::make_unique<ProductKernel>(spec, inputs, context);
}

}  // namespace hetpipe
