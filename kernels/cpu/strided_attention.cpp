// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include "base/error.h"
#include "kernels/cpu/algebra.h"
#include "kernels/cpu/algebra_loops.h"
#include "kernels/cpu/loops.h"
#include "kernels/cpu/matrix_operand.h"
#include "kernels/cpu/operand_lanes.h"
#include "kernels/cpu/threads.h"
#include "kernels/host_device.h"
#include "kernels/reference/algebra_attention.h"

namespace hetpipe {
namespace {

// Rows from `first` on.
Matrix rows_from(Matrix m, std::int64_t first) {
  m.data += m.transposed ? first : first * m.step;
  return m;
}
MatrixTarget rows_from(MatrixTarget m, std::int64_t first) {
  m.data += m.transposed ? first : first * m.step;
  return m;
}

// Matrix products for each head, a block of queries after another: a block's scores stay in the
// cache, and those above a causal diagonal are not computed.
class StridedAttention final : public LayerKernel {
 public:
  StridedAttention(CpuContext& context, const Attention& spec, const std::vector<Shape>& inputs,
                   std::uint64_t key)
      : context_(context), spec_(spec), samples_(inputs[0][0]), key_(key) {
    for (const Shape& in : inputs) elements_.push_back(in.elements() / samples_);
    block_ = spec_.causal ? 64 : spec_.queries <= 256 ? spec_.queries : 128;
    block_ = std::min(block_, spec_.queries);
    query_ = operand(spec_.query, spec_.heads, spec_.queries, spec_.features);
    keys_ = operand(spec_.key, spec_.kv_heads, spec_.keys, spec_.features);
    values_ = operand(spec_.value, spec_.kv_heads, spec_.keys, spec_.value_features);
    const std::int64_t row = spec_.heads * spec_.value_features;
    output_ = MatrixOperand(LoopNumbers{spec_.value_features, row, 1}, {spec_.heads}, spec_.queries,
                            spec_.value_features, spec_.queries * row);
  }

  void forward(Stream& stream, const ForwardArguments& a) override;
  void backward(Stream& stream, const BackwardArguments& a) override;

 private:
  // A thread's scratch: packed operands, blocks of scores, gradients on their way.
  struct Scratch {
    float *query, *key, *value, *scores, *more_scores, *mask;
    float *query_gradient, *key_gradient, *value_gradient;
  };
  std::int64_t scratch_floats() const {
    return 2 * (query_.floats() + keys_.floats() + values_.floats()) + 2 * block_ * spec_.keys +
           spec_.keys;
  }
  Scratch scratch(float* at) const {
    const auto take = [&](std::int64_t count) {
      float* const taken = at;
      at += count;
      return taken;
    };
    const std::int64_t q = query_.floats(), k = keys_.floats(), v = values_.floats();
    const std::int64_t scores = block_ * spec_.keys;
    return {take(q),          take(k), take(v), take(scores), take(scores),
            take(spec_.keys), take(q), take(k), take(v)};
  }
  Buffer all_scratch(Stream& stream, std::int64_t workers) const {
    return Buffer(context_.device, stream,
                  static_cast<std::size_t>(workers * scratch_floats()) * sizeof(float),
                  MemoryKind::workspace);
  }

  MatrixOperand operand(const Operand& o, std::int64_t heads, std::int64_t rows,
                        std::int64_t columns) const {
    return MatrixOperand(
        o, {heads}, rows, columns,
        o.source == Source::input ? elements_[static_cast<std::size_t>(o.index)] : 0);
  }
  template <class Arguments>
  const float* source(const Operand& o, const Arguments& a) const {
    const auto i = static_cast<std::size_t>(o.index);
    return o.source == Source::input       ? floats(a.inputs[i])
           : o.source == Source::parameter ? a.parameters[i]
                                           : spec_.constants[i].data();
  }
  // A query's row of the mask.
  RunPlace mask_place(std::int64_t head, std::int64_t query) const {
    const Operand& o = *spec_.mask;
    RunPlace r;
    r.place = o.offset + head * o.strides[0] + query * o.strides[1];
    if (o.table.empty()) return r;
    const std::int32_t* const entry =
        o.table.data() + head * o.table_strides[0] + query * o.table_strides[1];
    if (o.table_strides[2] == 0) {
      r.place += *entry;
    } else {
      r.table = entry;
    }
    return r;
  }
  void add_mask(float* row, const float* mask, std::int64_t head, std::int64_t query,
                std::int64_t seen, float* own) const {
    const Operand& o = *spec_.mask;
    const RunPlace r = mask_place(head, query);
    const float* from = mask + r.place;
    if (r.table != nullptr) {
      loops::load_by_table(own, from, o.strides[2], r.table, o.table_strides[2], seen);
      from = own;
    } else if (o.strides[2] != 1) {
      loops::load_strided(own, from, o.strides[2], seen);
      from = own;
    }
    loops::add_row(row, from, seen);
  }
  void sum_mask(double* sums, const float* gradient, std::int64_t head, std::int64_t query,
                std::int64_t seen) const {
    const Operand& o = *spec_.mask;
    const RunPlace r = mask_place(head, query);
    if (r.table != nullptr) {
      loops::sum_by_table(sums + r.place, o.strides[2], r.table, o.table_strides[2], gradient,
                          seen);
    } else {
      loops::sum_strided(sums + r.place, o.strides[2], gradient, seen);
    }
  }

  std::int64_t weights() const { return spec_.heads * spec_.queries * spec_.keys; }
  std::int64_t group() const { return spec_.heads / spec_.kv_heads; }
  std::int64_t keys_of_block(std::int64_t first, std::int64_t rows) const {
    return spec_.causal ? std::min(first + rows, spec_.keys) : spec_.keys;
  }
  bool drops() const { return spec_.dropout > 0; }
  float factor() const { return 1 / (1 - spec_.dropout); }
  // Rows of the dropped softmax of a block.
  void drop(float* to, const float* from, const std::uint8_t* kept, std::int64_t rows,
            std::int64_t seen) const {
    for (std::int64_t r = 0; r < rows; ++r) {
      loops::drop_row(to + r * spec_.keys, from + r * spec_.keys, kept + r * spec_.keys, factor(),
                      seen);
    }
  }

  void forward_heads(std::int64_t n, std::int64_t g, const ForwardArguments& a, float* softmax,
                     const std::uint8_t* kept, const Scratch& s) const;

  // Where a unit's gradients go: null where nobody wants them.
  struct Wanted {
    float *query = nullptr, *key = nullptr, *value = nullptr;  // of all samples
    double* query_sums = nullptr;  // of this sample, where elements are read several times
    double* key_sums = nullptr;
    double* value_sums = nullptr;
    double* mask_sums = nullptr;
  };
  void backward_heads(std::int64_t n, std::int64_t g, const BackwardArguments& a, const Wanted& w,
                      const Scratch& s) const;
  void by_sample(Stream& stream, const BackwardArguments& a, const std::vector<bool>& sums);

  // How the operands but the mask read an input.
  const OperandReads& reads(std::size_t i) {
    const auto found = reads_.find(i);
    if (found != reads_.end()) return found->second;
    std::vector<const MatrixOperand*> own;
    for (const auto& [o, m] :
         {std::pair{&spec_.query, &query_}, {&spec_.key, &keys_}, {&spec_.value, &values_}}) {
      if (o->source == Source::input && static_cast<std::size_t>(o->index) == i) own.push_back(m);
    }
    OperandReads r = reads_of(elements_[i], own);
    // Keys that no query sees get no product's zeros.
    if (spec_.causal && spec_.queries < spec_.keys) r.all = false;
    return reads_.emplace(i, r).first->second;
  }

  CpuContext& context_;
  Attention spec_;
  std::int64_t samples_;
  std::uint64_t key_;
  std::int64_t block_ = 1;  // queries
  std::vector<std::int64_t> elements_;
  MatrixOperand query_, keys_, values_, output_;
  std::map<std::size_t, OperandReads> reads_;
};

void StridedAttention::forward(Stream& stream, const ForwardArguments& a) {
  const bool train = a.mode == Mode::train;
  float* const softmax = train ? reinterpret_cast<float*>(a.stash) : nullptr;
  std::uint8_t* kept = nullptr;
  if (train && drops()) {
    ensure(static_cast<std::int64_t>(a.samples.size()) == samples_, "one sample key per sample");
    kept = reinterpret_cast<std::uint8_t*>(softmax + samples_ * weights());
    parallel_for(context_.threads, samples_, [&](std::int64_t n) {
      loops::dropout_draw(kept + n * weights(),
                          dropout_key(key_, a.samples[static_cast<std::size_t>(n)]), spec_.dropout,
                          weights());
    });
  }
  const std::int64_t units = samples_ * spec_.kv_heads;
  const std::int64_t workers = std::min<std::int64_t>(context_.threads, units);
  const Buffer memory = all_scratch(stream, workers);
  parallel_for(context_.threads, workers, [&](std::int64_t worker) {
    const Scratch s = scratch(memory.as<float>() + worker * scratch_floats());
    for (std::int64_t u = worker; u < units; u += workers) {
      forward_heads(u / spec_.kv_heads, u % spec_.kv_heads, a, softmax, kept, s);
    }
  });
}

void StridedAttention::forward_heads(std::int64_t n, std::int64_t g, const ForwardArguments& a,
                                     float* softmax, const std::uint8_t* kept,
                                     const Scratch& s) const {
  const Matrix key = keys_.view(source(spec_.key, a), n, g, s.key);
  const Matrix value = values_.view(source(spec_.value, a), n, g, s.value);
  const float* mask = spec_.mask ? source(*spec_.mask, a) : nullptr;
  if (mask != nullptr && spec_.mask->source == Source::input) {
    mask += n * elements_[static_cast<std::size_t>(spec_.mask->index)];
  }
  for (std::int64_t h = g * group(); h < (g + 1) * group(); ++h) {
    const Matrix query = query_.view(source(spec_.query, a), n, h, s.query);
    const MatrixTarget y = output_.target(floats(a.output), n, h);
    for (std::int64_t first = 0; first < spec_.queries; first += block_) {
      const std::int64_t rows = std::min(block_, spec_.queries - first);
      const std::int64_t seen = keys_of_block(first, rows);
      const std::int64_t at = ((n * spec_.heads + h) * spec_.queries + first) * spec_.keys;
      float* const p = softmax == nullptr ? s.scores : softmax + at;
      multiply(rows, seen, spec_.features, rows_from(query, first), transposed(key), 0, p,
               spec_.keys, spec_.scale);
      for (std::int64_t r = 0; r < rows; ++r) {
        float* const row = p + r * spec_.keys;
        const std::int64_t own = reference::keys_seen(spec_, first + r);
        if (mask != nullptr) add_mask(row, mask, h, first + r, own, s.mask);
        loops::softmax_row(row, row, own, true);
        std::fill(row + own, row + seen, 0.0f);
      }
      const float* weights = p;
      if (kept != nullptr) {
        drop(s.more_scores, p, kept + at, rows, seen);
        weights = s.more_scores;
      }
      multiply_to(rows_from(y, first), rows, spec_.value_features, seen, {weights, spec_.keys},
                  value, 0, 1);
    }
  }
}

void StridedAttention::backward_heads(std::int64_t n, std::int64_t g, const BackwardArguments& a,
                                      const Wanted& w, const Scratch& s) const {
  const Matrix key = keys_.view(source(spec_.key, a), n, g, s.key);
  const Matrix value = values_.view(source(spec_.value, a), n, g, s.value);
  const float* const softmax = reinterpret_cast<const float*>(a.stash);
  const std::uint8_t* const kept =
      drops() ? reinterpret_cast<const std::uint8_t*>(softmax + samples_ * weights()) : nullptr;
  // A gradient goes to its place at once where that is a matrix that nothing else is added to.
  const auto target = [&](const MatrixOperand& o, float* dx, const double* sums, float* own,
                          std::int64_t batch) {
    return dx != nullptr && sums == nullptr && !o.packed() ? o.target(dx, n, batch)
                                                           : MatrixTarget{own, o.columns()};
  };
  const auto deliver = [&](const MatrixOperand& o, float* dx, double* sums, const float* own,
                           std::int64_t batch) {
    if (sums != nullptr) {
      o.add(sums, batch, own);
    } else if (dx != nullptr && o.packed()) {
      o.store(dx, n, batch, own);
    }
  };
  const bool wants_query = w.query != nullptr || w.query_sums != nullptr;
  const bool wants_key = w.key != nullptr || w.key_sums != nullptr;
  const bool wants_value = w.value != nullptr || w.value_sums != nullptr;
  const MatrixTarget dkey = target(keys_, w.key, w.key_sums, s.key_gradient, g);
  const MatrixTarget dvalue = target(values_, w.value, w.value_sums, s.value_gradient, g);
  const std::int64_t most = keys_of_block(0, spec_.queries);  // what any query sees
  for (const auto& [own, columns] :
       {std::pair{s.key_gradient, spec_.features}, {s.value_gradient, spec_.value_features}}) {
    std::fill(own + most * columns, own + spec_.keys * columns, 0.0f);
  }
  float before = 0;  // the first block writes, others add; the first one sees most
  for (std::int64_t h = g * group(); h < (g + 1) * group(); ++h) {
    const Matrix query = query_.view(source(spec_.query, a), n, h, s.query);
    const Matrix dy = output_.view(floats(a.output_gradient), n, h, nullptr);
    const MatrixTarget dquery = target(query_, w.query, w.query_sums, s.query_gradient, h);
    const std::int64_t blocks = (spec_.queries + block_ - 1) / block_;
    for (std::int64_t first = (blocks - 1) * block_; first >= 0; first -= block_, before = 1) {
      const std::int64_t rows = std::min(block_, spec_.queries - first);
      const std::int64_t seen = keys_of_block(first, rows), step = spec_.keys;
      const std::int64_t at = ((n * spec_.heads + h) * spec_.queries + first) * step;
      const float* const p = softmax + at;
      const Matrix gradient = rows_from(dy, first);
      if (wants_value) {
        const float* weights = p;
        if (kept != nullptr) {
          drop(s.more_scores, p, kept + at, rows, seen);
          weights = s.more_scores;
        }
        multiply_to(dvalue, seen, spec_.value_features, rows, {weights, step, true}, gradient,
                    before, 1);
      }
      if (!wants_query && !wants_key && w.mask_sums == nullptr) continue;
      float* const ds = s.scores;
      multiply(rows, seen, spec_.value_features, gradient, transposed(value), 0, ds, step);
      if (kept != nullptr) drop(ds, ds, kept + at, rows, seen);
      for (std::int64_t r = 0; r < rows; ++r) {
        const std::int64_t own = reference::keys_seen(spec_, first + r);
        float* const row = ds + r * step;
        const auto mean = static_cast<float>(loops::row_dot(p + r * step, row, own));
        loops::softmax_gradient_row(row, p + r * step, row, mean, own);
        std::fill(row + own, row + seen, 0.0f);
        if (w.mask_sums != nullptr) sum_mask(w.mask_sums, row, h, first + r, own);
      }
      if (wants_query) {
        multiply_to(rows_from(dquery, first), rows, spec_.features, seen, {ds, step}, key, 0,
                    spec_.scale);
      }
      if (wants_key) {
        multiply_to(dkey, seen, spec_.features, rows, {ds, step, true}, rows_from(query, first),
                    before, spec_.scale);
      }
    }
    if (wants_query) deliver(query_, w.query, w.query_sums, s.query_gradient, h);
  }
  if (wants_key) deliver(keys_, w.key, w.key_sums, s.key_gradient, g);
  if (wants_value) deliver(values_, w.value, w.value_sums, s.value_gradient, g);
}

void StridedAttention::backward(Stream& stream, const BackwardArguments& a) {
  std::vector<bool> sums(elements_.size(), false);
  bool grouped = spec_.mask && spec_.mask->source == Source::parameter &&
                 wanted(a.parameter_gradients, static_cast<std::size_t>(spec_.mask->index));
  bool any = grouped;
  for (std::size_t i = 0; i < elements_.size(); ++i) {
    float* const dx = wanted(a.input_gradients, i);
    if (dx == nullptr) continue;
    any = true;
    const bool of_mask = spec_.mask && spec_.mask->source == Source::input &&
                         static_cast<std::size_t>(spec_.mask->index) == i;
    sums[i] = of_mask || !reads(i).once;
    grouped = grouped || sums[i];
    if (!sums[i] && !reads(i).all) std::fill_n(dx, samples_ * elements_[i], 0.0f);
  }
  if (!any) return;
  if (grouped) {
    by_sample(stream, a, sums);
    return;
  }
  Wanted w;
  w.query = wanted(a.input_gradients, static_cast<std::size_t>(spec_.query.index));
  w.key = wanted(a.input_gradients, static_cast<std::size_t>(spec_.key.index));
  w.value = wanted(a.input_gradients, static_cast<std::size_t>(spec_.value.index));
  const std::int64_t units = samples_ * spec_.kv_heads;
  const std::int64_t workers = std::min<std::int64_t>(context_.threads, units);
  const Buffer memory = all_scratch(stream, workers);
  parallel_for(context_.threads, workers, [&](std::int64_t worker) {
    const Scratch s = scratch(memory.as<float>() + worker * scratch_floats());
    for (std::int64_t u = worker; u < units; u += workers) {
      backward_heads(u / spec_.kv_heads, u % spec_.kv_heads, a, w, s);
    }
  });
}

// Places are added to several times: sample by sample, each head after the other; a parameter's
// over groups of samples, which do not depend on the number of threads, and then over the groups.
void StridedAttention::by_sample(Stream& stream, const BackwardArguments& a,
                                 const std::vector<bool>& sums) {
  const std::int64_t of_group = (samples_ + 15) / 16;
  const std::int64_t groups = (samples_ + of_group - 1) / of_group;
  float* const dparameter =
      spec_.mask && spec_.mask->source == Source::parameter
          ? wanted(a.parameter_gradients, static_cast<std::size_t>(spec_.mask->index))
          : nullptr;
  const std::int64_t of_parameter =
      dparameter == nullptr
          ? 0
          : spec_.parameters[static_cast<std::size_t>(spec_.mask->index)].shape.elements();
  std::vector<double> parameter(static_cast<std::size_t>(groups * of_parameter), 0.0);
  const std::int64_t workers = std::min<std::int64_t>(context_.threads, groups);
  const Buffer memory = all_scratch(stream, workers);
  parallel_for(context_.threads, workers, [&](std::int64_t worker) {
    const Scratch s = scratch(memory.as<float>() + worker * scratch_floats());
    std::vector<std::vector<double>> own(elements_.size());
    for (std::int64_t group = worker; group < groups; group += workers) {
      for (std::int64_t n = group * of_group; n < std::min(samples_, (group + 1) * of_group); ++n) {
        Wanted w;
        const auto give = [&](const Operand& o, float** dx, double** to) {
          const auto i = static_cast<std::size_t>(o.index);
          if (wanted(a.input_gradients, i) == nullptr) return;
          if (sums[i]) {
            *to = own[i].data();
          } else if (dx != nullptr) {
            *dx = wanted(a.input_gradients, i);
          }
        };
        for (std::size_t i = 0; i < own.size(); ++i) {
          if (sums[i]) own[i].assign(static_cast<std::size_t>(elements_[i]), 0.0);
        }
        give(spec_.query, &w.query, &w.query_sums);
        give(spec_.key, &w.key, &w.key_sums);
        give(spec_.value, &w.value, &w.value_sums);
        if (spec_.mask && spec_.mask->source == Source::input) {
          give(*spec_.mask, nullptr, &w.mask_sums);
        }
        if (dparameter != nullptr) w.mask_sums = parameter.data() + group * of_parameter;
        for (std::int64_t g = 0; g < spec_.kv_heads; ++g) backward_heads(n, g, a, w, s);
        for (std::size_t i = 0; i < own.size(); ++i) {
          if (!sums[i]) continue;
          loops::round_sums(wanted(a.input_gradients, i) + n * elements_[i], own[i].data(),
                            elements_[i]);
        }
      }
    }
  });
  if (dparameter == nullptr) return;
  for (std::int64_t g = 1; g < groups; ++g) {
    for (std::int64_t e = 0; e < of_parameter; ++e) {
      parameter[static_cast<std::size_t>(e)] +=
          parameter[static_cast<std::size_t>(g * of_parameter + e)];
    }
  }
  loops::round_sums(dparameter, parameter.data(), of_parameter);
}

}  // namespace

std::unique_ptr<LayerKernel> make_strided_attention(CpuContext& context, const Attention& spec,
                                                    const std::vector<Shape>& inputs,
                                                    std::uint64_t key) {
  return std::make_unique<StridedAttention>(context, spec, inputs, key);
}

}  // namespace hetpipe
