// SPDX-License-Identifier: Apache-2.0
#include <numeric>

#include "kernels/cpu/algebra.h"
#include "kernels/cpu/operand_lanes.h"
#include "kernels/cpu/strided_copy.h"
#include "kernels/cpu/threads.h"
#include "kernels/host_device.h"

namespace hetpipe {
namespace {

LoopNumbers with_front(std::int64_t front, const LoopNumbers& numbers) {
  LoopNumbers all{front};
  all.insert(all.end(), numbers.begin(), numbers.end());
  return all;
}

std::int64_t count_of(const LoopNumbers& extents) {
  return std::accumulate(extents.begin(), extents.end(), std::int64_t{1}, std::multiplies<>());
}

// One piece: a copy by strides, or where it has a table run by run.
class MovedPiece {
 public:
  MovedPiece(const Move::Piece& piece, std::int64_t samples, std::int64_t from_elements,
             std::int64_t to_elements)
      : piece_(piece), elements_(count_of(piece.extents)) {
    const Operand& o = piece.from;
    const LoopNumbers extents = with_front(samples, piece.extents);
    const LoopNumbers to = with_front(to_elements, piece.to_strides);
    const LoopNumbers from = with_front(o.source == Source::input ? from_elements : 0, o.strides);
    if (o.table.empty()) {
      forth_ = StridedCopy(extents, to, from);
      if (o.source == Source::input) back_ = StridedCopy(extents, from, to);
      by_run_ = merged_loops(piece.extents, {piece.to_strides, o.strides});
    } else {
      by_run_ = merged_loops(piece.extents, {piece.to_strides, o.strides, o.table_strides});
    }
    by_sample_to_ = to_elements;
    by_sample_from_ = from[0];
    samples_ = samples;
  }

  const Operand& from() const { return piece_.from; }
  std::int64_t elements() const { return elements_; }

  // `from` and `to`: all samples.
  void copy(int threads, float* to, const float* from) const {
    to += piece_.to_offset;
    from += piece_.from.offset;
    if (piece_.from.table.empty()) {
      forth_.run(threads, to, from);
      return;
    }
    parallel_for(threads, samples_, [&](std::int64_t n) {
      each_run([&](const Run& r) {
        float* const t = to + n * by_sample_to_ + r.to;
        const float* const f = from + n * by_sample_from_ + r.from;
        for (std::int64_t i = 0; i < r.count; ++i) {
          t[i * r.to_stride] = f[i * r.from_stride + r.table[i * r.table_stride]];
        }
      });
    });
  }
  // dx = dy at this piece's places, which no other piece reads.
  void copy_back(int threads, float* dx, const float* dy) const {
    dx += piece_.from.offset;
    dy += piece_.to_offset;
    if (piece_.from.table.empty()) {
      back_.run(threads, dx, dy);
      return;
    }
    parallel_for(threads, samples_, [&](std::int64_t n) {
      each_run([&](const Run& r) {
        float* const t = dx + n * by_sample_from_ + r.from;
        const float* const f = dy + n * by_sample_to_ + r.to;
        for (std::int64_t i = 0; i < r.count; ++i) {
          t[i * r.from_stride + r.table[i * r.table_stride]] = f[i * r.to_stride];
        }
      });
    });
  }
  // sums += one sample's dy.
  void sum_back(double* sums, const float* dy) const {
    each_run([&](const Run& r) {
      double* const t = sums + piece_.from.offset + r.from;
      const float* const f = dy + piece_.to_offset + r.to;
      if (r.to_stride == 1 && r.table == nullptr) {
        loops::sum_strided(t, r.from_stride, f, r.count);
        return;
      }
      for (std::int64_t i = 0; i < r.count; ++i) {
        const std::int64_t entry = r.table == nullptr ? 0 : r.table[i * r.table_stride];
        t[i * r.from_stride + entry] += static_cast<double>(f[i * r.to_stride]);
      }
    });
  }
  // counts[place] += 1 for all that it reads of a sample.
  void count(std::vector<std::uint8_t>& counts) const {
    each_run([&](const Run& r) {
      for (std::int64_t i = 0; i < r.count; ++i) {
        const std::int64_t entry = r.table == nullptr ? 0 : r.table[i * r.table_stride];
        std::uint8_t& c = counts[static_cast<std::size_t>(piece_.from.offset + r.from +
                                                          i * r.from_stride + entry)];
        if (c < 2) ++c;
      }
    });
  }

 private:
  struct Run {
    std::int64_t to, to_stride, from, from_stride;
    const std::int32_t* table;
    std::int64_t table_stride, count;
  };
  template <class Body>
  void each_run(const Body& body) const {
    const bool has_table = !piece_.from.table.empty();
    LoopWalker walker(by_run_, 0);
    for (std::int64_t i = 0; i < by_run_.runs(); ++i, walker.next()) {
      const std::int64_t* const p = walker.places();
      body(Run{p[0], by_run_.inner_stride(0), p[1], by_run_.inner_stride(1),
               has_table ? piece_.from.table.data() + p[2] : nullptr,
               has_table ? by_run_.inner_stride(2) : 0, by_run_.run()});
    }
  }

  const Move::Piece& piece_;
  std::int64_t elements_;
  StridedCopy forth_, back_;
  StridedLoops by_run_;  // of a sample; lanes: to, from, table
  std::int64_t by_sample_to_ = 0, by_sample_from_ = 0, samples_ = 0;
};

class MoveKernel final : public LayerKernel {
 public:
  MoveKernel(const Move& spec, const std::vector<Shape>& inputs, int threads)
      : spec_(spec), samples_(inputs[0][0]), threads_(threads), output_(count_of(spec.output)) {
    for (const Shape& in : inputs) elements_.push_back(in.elements() / samples_);
    std::int64_t written = 0;
    for (const Move::Piece& piece : spec_.pieces) {
      const Operand& o = piece.from;
      pieces_.emplace_back(
          piece, samples_,
          o.source == Source::input ? elements_[static_cast<std::size_t>(o.index)] : 0, output_);
      written += pieces_.back().elements();
    }
    fills_ = written < output_;
  }

  void forward(Stream&, const ForwardArguments& a) override {
    float* const y = floats(a.output);
    if (fills_) {
      parallel_pieces(threads_, samples_ * output_, [&](std::int64_t begin, std::int64_t count) {
        std::fill_n(y + begin, count, spec_.fill);
      });
    }
    for (const MovedPiece& piece : pieces_) {
      const auto i = static_cast<std::size_t>(piece.from().index);
      piece.copy(threads_, y,
                 piece.from().source == Source::input       ? floats(a.inputs[i])
                 : piece.from().source == Source::parameter ? a.parameters[i]
                                                            : spec_.constants[i].data());
    }
  }

  void backward(Stream&, const BackwardArguments& a) override {
    const float* const dy = floats(a.output_gradient);
    for (std::size_t i = 0; i < elements_.size(); ++i) {
      if (float* const dx = wanted(a.input_gradients, i)) input_gradient(i, dx, dy);
    }
    for (std::size_t p = 0; p < spec_.parameters.size(); ++p) {
      if (float* const d = wanted(a.parameter_gradients, p)) parameter_gradient(p, d, dy);
    }
  }

 private:
  // How often a sample's elements are read: at most once, and all of them?
  struct Reads {
    bool once = true, all = true;
  };
  const Reads& reads(std::size_t input) {
    if (reads_.empty()) reads_.resize(elements_.size());
    if (reads_[input]) return *reads_[input];
    std::vector<std::uint8_t> counts(static_cast<std::size_t>(elements_[input]), 0);
    for (const MovedPiece& piece : pieces_) {
      if (is(piece.from(), Source::input, input)) piece.count(counts);
    }
    Reads r;
    for (const std::uint8_t c : counts) {
      r.once = r.once && c <= 1;
      r.all = r.all && c >= 1;
    }
    return reads_[input].emplace(r);
  }
  static bool is(const Operand& o, Source source, std::size_t index) {
    return o.source == source && static_cast<std::size_t>(o.index) == index;
  }

  void input_gradient(std::size_t i, float* dx, const float* dy) {
    const Reads& r = reads(i);
    const std::int64_t elements = elements_[i];
    if (r.once) {
      if (!r.all) {
        parallel_pieces(threads_, samples_ * elements, [&](std::int64_t begin, std::int64_t count) {
          std::fill_n(dx + begin, count, 0.0f);
        });
      }
      for (const MovedPiece& piece : pieces_) {
        if (is(piece.from(), Source::input, i)) piece.copy_back(threads_, dx, dy);
      }
      return;
    }
    parallel_for(threads_, samples_, [&](std::int64_t n) {
      std::vector<double> sums(static_cast<std::size_t>(elements), 0.0);
      for (const MovedPiece& piece : pieces_) {
        if (is(piece.from(), Source::input, i)) piece.sum_back(sums.data(), dy + n * output_);
      }
      loops::round_sums(dx + n * elements, sums.data(), elements);
    });
  }

  // Sample after sample.
  void parameter_gradient(std::size_t p, float* d, const float* dy) const {
    const std::int64_t elements = spec_.parameters[p].shape.elements();
    std::vector<double> sums(static_cast<std::size_t>(elements), 0.0);
    for (std::int64_t n = 0; n < samples_; ++n) {
      for (const MovedPiece& piece : pieces_) {
        if (is(piece.from(), Source::parameter, p)) piece.sum_back(sums.data(), dy + n * output_);
      }
    }
    loops::round_sums(d, sums.data(), elements);
  }

  Move spec_;
  std::int64_t samples_;
  int threads_;
  std::int64_t output_;
  std::vector<std::int64_t> elements_;  // of inputs
  std::vector<MovedPiece> pieces_;
  std::vector<std::optional<Reads>> reads_;
  bool fills_ = false;
};

}  // namespace

std::unique_ptr<LayerKernel> make_move(const Move& spec, const std::vector<Shape>& inputs,
                                       int threads) {
  return std::make_unique<MoveKernel>(spec, inputs, threads);
}

}  // namespace hetpipe
