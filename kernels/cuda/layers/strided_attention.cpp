// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "kernels/cuda/layers/operand_gradients.h"
#include "kernels/cuda/layers/operand_sources.h"
#include "kernels/cuda/layers/sample_keys.h"
#include "kernels/cuda/own/masked_softmax.h"

namespace hetpipe::cuda {
namespace {

// Query heads that share a head of keys and values are rows of one matrix: (kv_heads, group *
// queries, features).
struct AttentionViews {
  std::int64_t group;
  OperandView query, key, value, output, mask;
  std::int64_t output_elements;  // of a sample

  explicit AttentionViews(const Attention& a) : group(a.heads / a.kv_heads) {
    query = {by_group(a.query), {{a.kv_heads}, {group, a.queries}, a.features}};
    key = {a.key, {{a.kv_heads}, {a.keys}, a.features}};
    value = {a.value, {{a.kv_heads}, {a.keys}, a.value_features}};
    const std::int64_t width = a.heads * a.value_features;
    output = {by_group({Source::input, 0, 0, {a.value_features, width, 1}}),
              {{a.kv_heads}, {group, a.queries}, a.value_features}};
    output_elements = a.queries * width;
    if (a.mask) mask = {*a.mask, {{a.heads}, {a.queries}, a.keys}};
  }

 private:
  Operand by_group(Operand o) const {
    o.strides.insert(o.strides.begin(), group * o.strides[0]);
    if (!o.table.empty()) {
      o.table_strides.insert(o.table_strides.begin(), group * o.table_strides[0]);
    }
    return o;
  }
};

// Products of the heads of several samples around a softmax of its own, as many samples at a time
// as kChunkBytes of scores are. The stash is the softmax (N, heads, queries, keys) of T, whose
// signs tell what dropout keeps.
template <class T>
class StridedAttention final : public LayerKernel {
 public:
  StridedAttention(LayerContext& context, const Attention& spec, const std::vector<Shape>& inputs,
                   std::uint64_t key)
      : context_(context),
        spec_(spec),
        key_(key),
        samples_(inputs[0][0]),
        views_(spec),
        sources_(context, spec, inputs, sizeof(T)),
        weights_(std::int64_t{spec.heads} * spec.queries * spec.keys),
        chunk_(chunk_of(samples_, weights_ * static_cast<std::int64_t>(sizeof(float)))),
        query_(operand(views_.query)),
        keys_(operand(views_.key)),
        values_(operand(views_.value)),
        output_(context, views_.output.operand, views_.output.loops, chunk_,
                views_.output_elements),
        mask_table_(spec.mask ? kept_table(context, *spec.mask) : KeptArrays()),
        scores_(product(rows(), spec.keys, spec.features, query_.form(), keys_.form().turned(),
                        squares(), ElementType::fp32)),
        attended_(product(rows(), spec.value_features, spec.keys, squares(), values_.form(),
                          output_.form(), element_of(context.precision))),
        dsoftmax_(product(rows(), spec.keys, spec.value_features, output_.form(),
                          values_.form().turned(), squares(), ElementType::fp32)) {
    add_gradients(Source::input, sources_.inputs());
    add_gradients(Source::parameter, sources_.parameters());
  }

  void adjust(LayerShapes& shapes) const override {
    shapes.stash_bytes = samples_ * weights_ * static_cast<std::int64_t>(sizeof(T));
  }

  void prepare(bool input_gradients) override {
    scores_.prepare();
    attended_.prepare();
    if (!input_gradients) return;
    dsoftmax_.prepare();
    for (Tensor& t : tensors_) {
      for (const auto& product : t.products) {
        if (product != nullptr) product->prepare();
      }
    }
  }

  void forward(Stream& stream, const ForwardArguments& a) override {
    const bool train = a.mode == Mode::train, drops = train && spec_.dropout > 0;
    const Workspace<float> scores(context_, stream, chunk_ * weights_);
    const Workspace<T> unkept(context_, stream, train ? 0 : chunk_ * weights_);
    const Workspace<T> dropped(context_, stream, drops ? chunk_ * weights_ : 0);
    const Workspace<T> packed(context_, stream,
                              output_.lies() ? 0 : chunk_ * views_.output_elements);
    Workspace<std::uint64_t> drawn;
    if (drops) drawn = sample_keys(context_, stream, key_, samples_, a.samples);
    for (std::int64_t n = 0; n < samples_; n += chunk_) {
      const auto query = query_.ready(stream, sources_.of(spec_.query, a, n), chunk_);
      const auto key = keys_.ready(stream, sources_.of(spec_.key, a, n), chunk_);
      const auto value = values_.ready(stream, sources_.of(spec_.value, a, n), chunk_);
      T* const softmax = train ? as<T>(a.stash) + n * weights_ : unkept.get();
      scores_.run(stream, query.get(), key.get(), scores.get(), 1);
      ScoreRows s = score_rows();
      if (spec_.mask) s.mask.values = sources_.of(*spec_.mask, a, n);
      if (drops) {
        s.sample_keys = drawn.get() + n;
        s.rate = spec_.dropout;
      }
      masked_softmax_forward(s, scores.get(), softmax, dropped.get(), handle(stream));
      T* const y = as<T>(a.output) + n * views_.output_elements;
      attended_.run(stream, drops ? dropped.get() : softmax, value.get(),
                    output_.lies() ? y : packed.get(), 1);
      if (output_.lies()) continue;
      strided_copy(output_.placement(), static_cast<const T*>(packed.get()), chunk_, y,
                   handle(stream));
    }
  }

  void backward(Stream& stream, const BackwardArguments& a) override {
    bool any = false;
    for (const Tensor& t : tensors_) any = any || t.wanted_in(a) != nullptr;
    if (!any) return;
    const bool drops = spec_.dropout > 0;
    const Workspace<float> dsoftmax(context_, stream, chunk_ * weights_);
    const Workspace<T> dscores(context_, stream, chunk_ * weights_);
    const Workspace<T> dropped(context_, stream, drops ? chunk_ * weights_ : 0);
    for (std::int64_t n = 0; n < samples_; n += chunk_) {
      const auto query = query_.ready(stream, sources_.of(spec_.query, a, n), chunk_);
      const auto key = keys_.ready(stream, sources_.of(spec_.key, a, n), chunk_);
      const auto value = values_.ready(stream, sources_.of(spec_.value, a, n), chunk_);
      const auto dy =
          output_.ready(stream, as<T>(a.output_gradient) + n * views_.output_elements, chunk_);
      const T* const softmax = as<T>(a.stash) + n * weights_;
      dsoftmax_.run(stream, dy.get(), value.get(), dsoftmax.get(), 1);
      ScoreRows s = score_rows();
      s.rate = spec_.dropout;
      masked_softmax_backward(s, softmax, static_cast<const float*>(dsoftmax.get()), dscores.get(),
                              dropped.get(), handle(stream));
      for (Tensor& t : tensors_) {
        void* gradient = t.wanted_in(a);
        if (gradient == nullptr) continue;
        if (t.source == Source::input) {
          gradient = static_cast<T*>(gradient) + n * sources_.inputs()[t.index];
        }
        typename TensorGradient<T>::Chunk chunk(*t.gradient, stream, gradient, n == 0);
        for (std::size_t i = 0; i < t.parts.size(); ++i) {
          switch (t.parts[i]) {
            case Part::query:
              t.products[i]->run(stream, dscores.get(), key.get(), chunk.target(i), spec_.scale);
              break;
            case Part::key:
              t.products[i]->run(stream, dscores.get(), query.get(), chunk.target(i), spec_.scale);
              break;
            case Part::value:
              t.products[i]->run(stream, drops ? dropped.get() : softmax, dy.get(), chunk.target(i),
                                 1);
              break;
            case Part::mask:
              chunk.give(i, dscores.get());
              break;
          }
        }
        chunk.finish();
      }
    }
  }

 private:
  enum class Part { query, key, value, mask };
  struct Tensor {
    Source source;
    std::size_t index;
    std::vector<Part> parts;  // that read it
    std::unique_ptr<TensorGradient<T>> gradient;
    std::vector<std::unique_ptr<BatchedProduct>> products;  // of each part; null: of the mask

    void* wanted_in(const BackwardArguments& args) const {
      return source == Source::input ? static_cast<void*>(wanted(args.input_gradients, index))
                                     : static_cast<void*>(wanted(args.parameter_gradients, index));
    }
  };

  std::int64_t rows() const { return views_.group * spec_.queries; }
  // (kv_heads, group * queries, keys)
  MatrixForm squares() const { return plain_form(rows(), spec_.keys); }
  MatrixOperand<T> operand(const OperandView& v) {
    return MatrixOperand<T>(context_, v.operand, v.loops, chunk_, sources_.by_sample(v.operand));
  }
  BatchedProduct::Extents extents(std::int64_t rows, std::int64_t columns,
                                  std::int64_t inner) const {
    return {chunk_ * spec_.kv_heads, rows, columns, inner};
  }
  BatchedProduct product(std::int64_t rows, std::int64_t columns, std::int64_t inner,
                         const MatrixForm& a, const MatrixForm& b, const MatrixForm& c,
                         ElementType result) {
    return BatchedProduct(context_, extents(rows, columns, inner), a, b, c, result);
  }

  ScoreRows score_rows() const {
    ScoreRows s{.samples = chunk_,
                .heads = spec_.heads,
                .queries = spec_.queries,
                .keys = spec_.keys,
                .scale = spec_.scale,
                .causal = spec_.causal};
    if (!spec_.mask) return s;
    const Operand& m = *spec_.mask;
    s.mask.floats = m.source != Source::input;
    s.mask.by_sample = sources_.by_sample(m);
    s.mask.offset = m.offset;
    std::copy_n(m.strides.begin(), 3, s.mask.strides);
    if (!m.table.empty()) {
      s.mask.table = mask_table_.template at<std::int32_t>(0);
      std::copy_n(m.table_strides.begin(), 3, s.mask.table_strides);
    }
    return s;
  }

  void add_gradients(Source source, const std::vector<std::int64_t>& elements) {
    for (std::size_t i = 0; i < elements.size(); ++i) {
      Tensor t{source, i, {}, nullptr, {}};
      std::vector<OperandView> views;
      std::vector<bool> products;
      const auto add = [&](Part part, const OperandView& v) {
        if (v.operand.source != source || static_cast<std::size_t>(v.operand.index) != i) return;
        t.parts.push_back(part);
        views.push_back(v);
        products.push_back(part != Part::mask);
      };
      add(Part::query, views_.query);
      add(Part::key, views_.key);
      add(Part::value, views_.value);
      if (spec_.mask) add(Part::mask, views_.mask);
      t.gradient = std::make_unique<TensorGradient<T>>(
          context_, source, elements[i], std::move(views), std::move(products), samples_);
      t.gradient->set_chunk(chunk_);
      for (std::size_t p = 0; p < t.parts.size(); ++p) {
        t.products.push_back(
            gradient_product(t.parts[p], t.gradient->form(p), t.gradient->result()));
      }
      tensors_.push_back(std::move(t));
    }
  }
  // With dS (kv_heads, group * queries, keys): dq = dS k, dk = dS' q, dv = P' dy.
  std::unique_ptr<BatchedProduct> gradient_product(Part part, const MatrixForm& to,
                                                   ElementType result) {
    switch (part) {
      case Part::query:
        return std::make_unique<BatchedProduct>(context_,
                                                extents(rows(), spec_.features, spec_.keys),
                                                squares(), keys_.form(), to, result);
      case Part::key:
        return std::make_unique<BatchedProduct>(context_,
                                                extents(spec_.keys, spec_.features, rows()),
                                                squares().turned(), query_.form(), to, result);
      case Part::value:
        return std::make_unique<BatchedProduct>(context_,
                                                extents(spec_.keys, spec_.value_features, rows()),
                                                squares().turned(), output_.form(), to, result);
      case Part::mask:
        break;
    }
    return nullptr;
  }

  LayerContext& context_;
  Attention spec_;
  std::uint64_t key_;
  std::int64_t samples_;
  AttentionViews views_;
  OperandSources sources_;
  std::int64_t weights_;  // of a sample's softmax
  std::int64_t chunk_;    // samples at a time
  MatrixOperand<T> query_, keys_, values_, output_;
  KeptArrays mask_table_;
  BatchedProduct scores_, attended_, dsoftmax_;
  std::vector<Tensor> tensors_;
};

// Whether an operand is part `part` of (N, tokens, 3 * heads * features) of the first input.
bool is_part_of_packed(const Attention& a, const Operand& o, std::int64_t part) {
  const std::int64_t width = a.heads * a.features;
  return o.source == Source::input && o.index == 0 && o.table.empty() && o.offset == part * width &&
         o.strides == LoopNumbers{a.features, 3 * width, 1};
}

// The zoo's attention, for which there are fused plans.
bool is_self_attention(const Attention& a, const std::vector<Shape>& inputs) {
  const auto scale = 1 / std::sqrt(static_cast<float>(a.features));
  return inputs.size() == 1 && a.heads == a.kv_heads && a.queries == a.keys &&
         a.features == a.value_features && !a.mask && a.dropout == 0 &&
         std::abs(a.scale - scale) <= 1e-6f * scale && is_part_of_packed(a, a.query, 0) &&
         is_part_of_packed(a, a.key, 1) && is_part_of_packed(a, a.value, 2) &&
         inputs[0].elements() / inputs[0][0] == a.queries * 3 * a.heads * a.features;
}

}  // namespace

LayerMaker make_attention(LayerContext& context, const Attention& spec,
                          const std::vector<Shape>& inputs, std::uint64_t key) {
  if (is_self_attention(spec, inputs)) {
    const Shape packed{inputs[0][0], spec.queries, 3 * spec.heads * spec.features};
    LayerMaker fused = make_fused_attention(context, {spec.heads, spec.causal}, packed);
    if (fused != nullptr) return fused;
  }
  return make_of_type<StridedAttention>(context, spec, inputs, key);
}

}  // namespace hetpipe::cuda
