// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/layers/operand_gradients.h"
#include "kernels/cuda/layers/operand_sources.h"
#include "kernels/reference/algebra.h"

namespace hetpipe::cuda {
namespace {

// A product's operands over (samples, batch..., rows, columns), as cuBLASLt is asked for them.
struct ProductForm {
  OperandView a, b, c;
  std::int64_t samples;
  std::int64_t by_sample_a, by_sample_b, by_sample_c;
};

ProductForm form_of(const hetpipe::Product& p, const OperandSources& sources,
                    std::int64_t samples) {
  const LoopNumbers loops = reference::joined({p.batch, {p.rows, p.columns}});
  LoopNumbers output(loops.size());
  std::int64_t stride = 1;
  for (std::size_t i = loops.size(); i-- > 0;) {
    const std::size_t loop = p.order.empty() ? i : static_cast<std::size_t>(p.order[i]);
    output[loop] = stride;
    stride *= loops[loop];
  }
  return {{p.a, {p.batch, {p.rows}, p.inner}},
          {p.b, {p.batch, {p.inner}, p.columns}},
          {Operand{Source::input, 0, 0, output}, {p.batch, {p.rows}, p.columns}},
          samples,
          sources.by_sample(p.a),
          sources.by_sample(p.b),
          stride};
}

// Where the second factor is one matrix for all, and the rows of all the others lie at one distance
// from each other: one product of all rows.
ProductForm with_rows_joined(ProductForm f) {
  const auto batches = static_cast<std::ptrdiff_t>(f.b.loops.batch.size());
  const Operand& b = f.b.operand;
  const bool shared = f.by_sample_b == 0 && b.table.empty() && f.a.operand.table.empty() &&
                      std::all_of(b.strides.begin(), b.strides.begin() + batches,
                                  [](std::int64_t stride) { return stride == 0; });
  if (!shared) return f;
  const auto lane = [&](const OperandView& v, std::int64_t by_sample) {
    return reference::joined(
        {{by_sample}, LoopNumbers(v.operand.strides.begin(), v.operand.strides.end() - 1)});
  };
  const StridedLoops rows =
      merged_loops(reference::joined({{f.samples}, f.a.loops.batch, f.a.loops.rows}),
                   {lane(f.a, f.by_sample_a), lane(f.c, f.by_sample_c)});
  if (rows.extents.size() != 1) return f;
  // As of one sample.
  const auto join = [&](OperandView& v, std::size_t which) {
    v.loops.batch.clear();
    v.loops.rows = {rows.run()};
    v.operand.strides = {rows.inner_stride(which), v.operand.strides.back()};
  };
  join(f.a, 0);
  join(f.c, 1);
  f.b.loops.batch.clear();
  f.b.operand.strides.erase(f.b.operand.strides.begin(), f.b.operand.strides.begin() + batches);
  f.by_sample_a *= f.samples;
  f.by_sample_c *= f.samples;
  f.samples = 1;
  return f;
}

template <class T>
class ProductLayer final : public LayerKernel {
 public:
  ProductLayer(LayerContext& context, const hetpipe::Product& spec,
               const std::vector<Shape>& inputs)
      : context_(context),
        scale_(spec.scale),
        sources_(context, spec, inputs, sizeof(T)),
        f_(with_rows_joined(form_of(spec, sources_, inputs[0][0]))),
        a_(context, f_.a.operand, f_.a.loops, f_.samples, f_.by_sample_a,
           sources_.elements(f_.a.operand)),
        b_(context, f_.b.operand, f_.b.loops, f_.samples, f_.by_sample_b,
           sources_.elements(f_.b.operand)),
        c_(context, f_.c.operand, f_.c.loops, f_.samples, f_.by_sample_c),
        forward_(context, {f_.samples * f_.a.loops.batches(), rows(), columns(), inner()},
                 a_.form(), b_.form(), c_.form(), element_of(context.precision)) {
    add_gradients(Source::input, sources_.inputs());
    add_gradients(Source::parameter, sources_.parameters());
    std::int64_t bytes = 0;
    for (const Tensor& t : tensors_) bytes = std::max(bytes, t.gradient->bytes_by_sample());
    chunk_ = chunk_of(f_.samples, bytes);
    for (Tensor& t : tensors_) t.gradient->set_chunk(chunk_);
    const std::int64_t batch = chunk_ * f_.a.loops.batches();
    for (Tensor& t : tensors_) {
      for (std::size_t i = 0; i < t.is_a.size(); ++i) {
        const MatrixForm& to = t.gradient->form(i);
        // da = dc b', db = a' dc
        if (t.is_a[i]) {
          t.products.push_back(std::make_unique<BatchedProduct>(
              context, BatchedProduct::Extents{batch, rows(), inner(), columns()}, c_.form(),
              b_.form().turned(), to, t.gradient->result()));
        } else {
          t.products.push_back(std::make_unique<BatchedProduct>(
              context, BatchedProduct::Extents{batch, inner(), columns(), rows()},
              a_.form().turned(), c_.form(), to, t.gradient->result()));
        }
      }
    }
  }

  void prepare(bool input_gradients) override {
    forward_.prepare();
    for (Tensor& t : tensors_) {
      if (t.source == Source::input && !input_gradients) continue;
      for (const auto& product : t.products) product->prepare();
    }
  }

  void forward(Stream& stream, const ForwardArguments& args) override {
    const auto a = a_.ready(stream, sources_.of(f_.a.operand, args, 0), f_.samples);
    const auto b = b_.ready(stream, sources_.of(f_.b.operand, args, 0), f_.samples);
    if (c_.lies()) return forward_.run(stream, a.get(), b.get(), args.output, scale_);
    const Workspace<T> values(context_, stream, f_.samples * c_.elements());
    forward_.run(stream, a.get(), b.get(), values.get(), scale_);
    strided_copy(c_.placement(), static_cast<const T*>(values.get()), f_.samples,
                 as<T>(args.output), handle(stream));
  }

  void backward(Stream& stream, const BackwardArguments& args) override {
    bool needs_a = false, needs_b = false;
    for (const Tensor& t : tensors_) {
      if (t.wanted_in(args) == nullptr) continue;
      for (const bool of_a : t.is_a) (of_a ? needs_b : needs_a) = true;
    }
    if (!needs_a && !needs_b) return;
    for (std::int64_t n = 0; n < f_.samples; n += chunk_) {
      typename MatrixOperand<T>::Ready a, b;
      if (needs_a) a = a_.ready(stream, source(f_.a, f_.by_sample_a, args, n), chunk_);
      if (needs_b) b = b_.ready(stream, source(f_.b, f_.by_sample_b, args, n), chunk_);
      const auto dc = c_.ready(stream, as<T>(args.output_gradient) + n * f_.by_sample_c, chunk_);
      for (Tensor& t : tensors_) {
        void* gradient = t.wanted_in(args);
        if (gradient == nullptr) continue;
        if (t.source == Source::input) {
          gradient = static_cast<T*>(gradient) + n * sources_.inputs()[t.index];
        }
        typename TensorGradient<T>::Chunk chunk(*t.gradient, stream, gradient, n == 0);
        for (std::size_t i = 0; i < t.is_a.size(); ++i) {
          t.products[i]->run(stream, t.is_a[i] ? dc.get() : a.get(), t.is_a[i] ? b.get() : dc.get(),
                             chunk.target(i), scale_);
        }
        chunk.finish();
      }
    }
  }

 private:
  struct Tensor {
    Source source;
    std::size_t index;
    std::vector<bool> is_a;  // of each operand that reads it, whether it is a
    std::unique_ptr<TensorGradient<T>> gradient;
    std::vector<std::unique_ptr<BatchedProduct>> products;

    void* wanted_in(const BackwardArguments& args) const {
      return source == Source::input ? static_cast<void*>(wanted(args.input_gradients, index))
                                     : static_cast<void*>(wanted(args.parameter_gradients, index));
    }
  };

  std::int64_t rows() const { return f_.a.loops.row_count(); }
  std::int64_t inner() const { return f_.a.loops.columns; }
  std::int64_t columns() const { return f_.b.loops.columns; }

  const void* source(const OperandView& v, std::int64_t by_sample, const BackwardArguments& args,
                     std::int64_t sample) const {
    const void* const first = sources_.of(v.operand, args, 0);
    return by_sample == 0 ? first : static_cast<const T*>(first) + sample * by_sample;
  }

  void add_gradients(Source source, const std::vector<std::int64_t>& elements) {
    for (std::size_t i = 0; i < elements.size(); ++i) {
      Tensor t{source, i, {}, nullptr, {}};
      std::vector<OperandView> views;
      for (const OperandView* v : {&f_.a, &f_.b}) {
        if (v->operand.source != source || static_cast<std::size_t>(v->operand.index) != i) {
          continue;
        }
        views.push_back(*v);
        t.is_a.push_back(v == &f_.a);
      }
      // Joined rows are those of one sample that is all of them.
      const bool joined = source == Source::input && f_.samples == 1 && !views.empty();
      const std::int64_t of_sample =
          joined ? (t.is_a[0] ? f_.by_sample_a : f_.by_sample_b) : elements[i];
      std::vector<bool> products(views.size(), true);
      t.gradient = std::make_unique<TensorGradient<T>>(
          context_, source, of_sample, std::move(views), std::move(products), f_.samples);
      tensors_.push_back(std::move(t));
    }
  }

  LayerContext& context_;
  float scale_;
  OperandSources sources_;
  ProductForm f_;
  MatrixOperand<T> a_, b_, c_;
  BatchedProduct forward_;
  std::vector<Tensor> tensors_;
  std::int64_t chunk_ = 1;
};

}  // namespace

LayerMaker make_product(LayerContext& context, const hetpipe::Product& spec,
                        const std::vector<Shape>& inputs) {
  return make_of_type<ProductLayer>(context, spec, inputs);
}

}  // namespace hetpipe::cuda
