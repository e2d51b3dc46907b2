// SPDX-License-Identifier: Apache-2.0
#include <map>

#include "base/error.h"
#include "kernels/cpu/algebra.h"
#include "kernels/cpu/block_program.h"
#include "kernels/cpu/operand_lanes.h"
#include "kernels/cpu/threads.h"
#include "kernels/host_device.h"
#include "kernels/pointwise_layer.h"

namespace hetpipe {
namespace {

// Runs of fewer elements share a block.
constexpr std::int64_t kShortRun = 128;
constexpr std::int64_t kPieceElements = 1 << 14;

// One tensor that a block is read from, or an operand's gradient goes to.
struct BlockSource {
  OperandLane lane;
  const float* base = nullptr;
  bool plain = false;
  int variable = 0;
};
// What becomes of an operand's gradient.
enum class Sink : std::uint8_t { none, target, store, add, sum };
struct BlockSink {
  Sink sink = Sink::none;
  OperandLane lane;
  float* floats = nullptr;
  double* sums = nullptr;
};

// One pass over memory, block by block: operands that lie in order are read where they lie, others
// are gathered; each operator is a loop over the block.
class BlockPass {
 public:
  BlockPass(const OperandLoops& loops, const BlockProgram& program, std::size_t variables)
      : loops_(loops),
        program_(program),
        short_runs_(loops.loops.run() < kShortRun && loops.loops.runs() > 1),
        rows_(short_runs_ ? BlockProgram::kBlock / loops.loops.run() : 1),
        work_(program.workspace()),
        variables_(variables, nullptr) {}

  // Elements [begin, end) of the loops; with short runs, whole ones.
  void run(std::int64_t begin, std::int64_t end, std::span<const BlockSource> sources,
           std::span<const BlockSink> sinks) {
    const std::int64_t run = loops_.loops.run();
    bool as_it_lies = program_.any_length() && sinks[0].sink == Sink::target;
    for (const BlockSource& s : sources) as_it_lies = as_it_lies && s.plain;
    const std::int64_t longest = as_it_lies ? run : BlockProgram::kBlock;
    scratch_.resize(sources.size() * BlockProgram::kBlock);
    targets_.resize(sinks.size());
    LoopWalker walker(loops_.loops, begin / run);
    const std::size_t lanes = loops_.loops.strides.size();
    for (std::int64_t at = begin; at < end;) {
      const std::int64_t within = at % run;
      const std::int64_t rows = short_runs_ ? std::min(rows_, (end - at) / run) : 1;
      const std::int64_t length = short_runs_ ? run : std::min({longest, run - within, end - at});
      places_.clear();
      for (std::int64_t r = 0; r < rows; ++r) {
        places_.insert(places_.end(), walker.places(), walker.places() + lanes);
        if (within + length == run) walker.next();
      }
      for (std::size_t s = 0; s < sources.size(); ++s) {
        variables_[static_cast<std::size_t>(sources[s].variable)] =
            load(sources[s], at, within, rows, length, scratch_.data() + s * BlockProgram::kBlock);
      }
      for (std::size_t s = 0; s < sinks.size(); ++s) {
        targets_[s] = sinks[s].sink == Sink::target
                          ? sinks[s].floats + sinks[s].lane.operand->offset + at
                          : nullptr;
      }
      program_.run(work_, variables_.data(), targets_.data(), rows * length);
      for (std::size_t s = 0; s < sinks.size(); ++s) {
        if (sinks[s].sink > Sink::target) store(sinks[s], work_.results[s], within, rows, length);
      }
      at += rows * length;
    }
  }

 private:
  const float* load(const BlockSource& s, std::int64_t at, std::int64_t within, std::int64_t rows,
                    std::int64_t length, float* scratch) const {
    if (s.plain) return s.base + (s.lane.operand == nullptr ? 0 : s.lane.operand->offset) + at;
    const float* from = nullptr;
    for (std::int64_t r = 0; r < rows; ++r) {
      float* const to = scratch + r * length;
      from = load_run(loops_, s.lane, place(s.lane, r, within), s.base, length, to);
      if (rows > 1 && from != to) std::copy_n(from, length, to);
    }
    return rows > 1 ? scratch : from;
  }
  void store(const BlockSink& s, const float* values, std::int64_t within, std::int64_t rows,
             std::int64_t length) const {
    const std::int64_t stride = loops_.inner(s.lane);
    for (std::int64_t r = 0; r < rows; ++r, values += length) {
      const RunPlace p = place(s.lane, r, within);
      if (s.sink == Sink::sum && p.table != nullptr) {
        loops::sum_by_table(s.sums + p.place, stride, p.table, loops_.table_inner(s.lane), values,
                            length);
      } else if (s.sink == Sink::sum) {
        loops::sum_strided(s.sums + p.place, stride, values, length);
      } else if (s.sink == Sink::store) {
        loops::store_strided(s.floats + p.place, stride, values, length);
      } else {
        loops::add_strided(s.floats + p.place, stride, values, length);
      }
    }
  }
  RunPlace place(const OperandLane& lane, std::int64_t row, std::int64_t within) const {
    const auto lanes = static_cast<std::int64_t>(loops_.loops.strides.size());
    return run_place(loops_, lane, places_.data() + row * lanes, within);
  }

  const OperandLoops& loops_;
  const BlockProgram& program_;
  bool short_runs_;
  std::int64_t rows_;
  BlockProgram::Workspace work_;
  std::vector<const float*> variables_;
  std::vector<float> scratch_;
  std::vector<float*> targets_;
  LoopNumbers places_;
};

// Elements of a thread's piece: whole runs where these are short.
std::int64_t piece_of(const StridedLoops& loops) {
  const std::int64_t run = loops.run();
  return run >= kShortRun || loops.runs() == 1
             ? kPieceElements
             : std::max<std::int64_t>(1, kPieceElements / run) * run;
}

class PointwiseKernel final : public LayerKernel {
 public:
  PointwiseKernel(const Pointwise& spec, const std::vector<Shape>& inputs, int threads)
      : spec_(merged(spec)),
        gradient_(gradient_of(spec_)),
        samples_(inputs[0][0]),
        threads_(threads),
        forward_(spec_.expression, {static_cast<int>(spec_.expression.steps.size()) - 1}) {
    for (const Shape& in : inputs) input_elements_.push_back(in.elements() / samples_);
    for (const ParameterShape& p : spec_.parameters) {
      parameter_elements_.push_back(p.shape.elements());
    }
    all_ = OperandLoops(spec_.extents, spec_.operands, samples_, input_elements_);
    sample_ = OperandLoops(spec_.extents, spec_.operands, 0, input_elements_);
    reads_.assign(spec_.operands.size(), false);
    for (const Expression::Step& s : spec_.expression.steps) {
      if (s.kind == Expression::Kind::variable) reads_[static_cast<std::size_t>(s.variable)] = true;
    }
  }

  void forward(Stream&, const ForwardArguments& a) override {
    std::vector<BlockSource> sources;
    for (std::size_t o = 0; o < spec_.operands.size(); ++o) {
      if (reads_[o]) sources.push_back(source(all_, o, a.inputs, a.parameters));
    }
    const Operand output;
    BlockSink sink{Sink::target, {&output}, floats(a.output)};
    pieces(all_.loops.elements(), piece_of(all_.loops), [&](std::int64_t begin, std::int64_t end) {
      BlockPass pass(all_, forward_, spec_.operands.size());
      pass.run(begin, end, sources, {&sink, 1});
    });
  }

  void backward(Stream&, const BackwardArguments& a) override;

 private:
  // Which gradients a call wants, and how they are computed.
  struct Backward {
    BlockProgram program;
    std::vector<bool> reads;    // operands, the output's gradient, the output
    std::vector<Sink> sinks;    // by operand
    std::vector<bool> written;  // by input: some operand has a gradient
    std::vector<bool> zero;     // by input: parts of it no operand writes
    std::vector<bool> sums;     // by input: its gradient is added up in double
    bool by_sample = false;
  };
  const Backward& backward_for(const std::vector<bool>& wanted);
  void by_piece(const Backward& b, const BackwardArguments& a);
  void by_sample(const Backward& b, const BackwardArguments& a);

  template <class Body>
  void pieces(std::int64_t count, std::int64_t piece, const Body& body) const {
    if (threads_ == 1) {
      body(0, count);
      return;
    }
    parallel_for(threads_, (count + piece - 1) / piece,
                 [&](std::int64_t p) { body(p * piece, std::min(count, (p + 1) * piece)); });
  }

  BlockSource source(const OperandLoops& loops, std::size_t o,
                     std::span<const std::byte* const> inputs,
                     std::span<const float* const> parameters) const {
    const Operand& operand = spec_.operands[o];
    const auto i = static_cast<std::size_t>(operand.index);
    BlockSource s{loops.lanes[o], nullptr, loops.plain[o], static_cast<int>(o)};
    s.base = operand.source == Source::input       ? floats(inputs[i])
             : operand.source == Source::parameter ? parameters[i]
                                                   : spec_.constants[i].data();
    return s;
  }
  std::vector<BlockSource> sources(const OperandLoops& loops, const Backward& b,
                                   const BackwardArguments& a) const {
    const std::size_t operands = spec_.operands.size();
    std::vector<BlockSource> result;
    for (std::size_t o = 0; o < operands; ++o) {
      if (b.reads[o]) result.push_back(source(loops, o, a.inputs, a.parameters));
    }
    if (b.reads[operands]) {
      result.push_back({{}, floats(a.output_gradient), true, gradient_variable(operands)});
    }
    if (b.reads[operands + 1]) {
      result.push_back({{}, floats(a.output), true, output_variable(operands)});
    }
    return result;
  }

  Pointwise spec_;
  ExpressionGradient gradient_;
  std::int64_t samples_;
  int threads_;
  BlockProgram forward_;
  std::vector<std::int64_t> input_elements_, parameter_elements_;
  OperandLoops all_, sample_;  // with the samples as a loop, and inside of one
  std::vector<bool> reads_;    // by forward
  std::map<std::vector<bool>, Backward> backwards_;
};

const PointwiseKernel::Backward& PointwiseKernel::backward_for(const std::vector<bool>& wanted) {
  const auto found = backwards_.find(wanted);
  if (found != backwards_.end()) return found->second;
  const std::size_t operands = spec_.operands.size();
  Backward b;
  std::vector<int> results(operands, -1);
  std::vector<int> writers(input_elements_.size(), 0);  // operands with a gradient
  for (std::size_t o = 0; o < operands; ++o) {
    if (!wanted[o] || gradient_.gradients[o] < 0) continue;
    results[o] = gradient_.gradients[o];
    if (spec_.operands[o].source == Source::input) {
      ++writers[static_cast<std::size_t>(spec_.operands[o].index)];
    }
  }
  ExpressionGradient needed{needed_steps(gradient_.steps, results), results};
  b.reads = needed.reads(operands);
  b.program = BlockProgram(needed.steps, results);
  b.sums.assign(input_elements_.size(), false);
  b.zero.assign(input_elements_.size(), true);
  for (const int w : writers) b.written.push_back(w > 0);
  b.sinks.assign(operands, Sink::none);
  const std::int64_t elements = sample_.loops.elements();
  for (const bool first_pass : {true, false}) {
    for (std::size_t o = 0; o < operands; ++o) {
      if (results[o] < 0) continue;
      const Operand& operand = spec_.operands[o];
      const auto i = static_cast<std::size_t>(operand.index);
      Sink& sink = b.sinks[o];
      if (operand.source == Source::parameter) {
        sink = Sink::sum;
      } else if (first_pass) {
        const bool once =
            !sample_.lanes[o].has_table() && places_differ(spec_.extents, operand.strides);
        if (!once) b.sums[i] = true;
        const bool whole = once && elements == input_elements_[i];
        if (whole && writers[i] == 1) b.zero[i] = false;
        sink = writers[i] > 1 ? Sink::add : whole && all_.plain[o] ? Sink::target : Sink::store;
      } else if (b.sums[i]) {
        sink = Sink::sum;
        b.zero[i] = false;
      }
      b.by_sample = b.by_sample || sink == Sink::sum || sink == Sink::add;
    }
  }
  return backwards_.emplace(wanted, std::move(b)).first->second;
}

void PointwiseKernel::backward(Stream&, const BackwardArguments& a) {
  std::vector<bool> of_operand(spec_.operands.size(), false);
  bool any = false;
  for (std::size_t o = 0; o < spec_.operands.size(); ++o) {
    const Operand& operand = spec_.operands[o];
    const auto i = static_cast<std::size_t>(operand.index);
    of_operand[o] =
        (operand.source == Source::input && wanted(a.input_gradients, i) != nullptr) ||
        (operand.source == Source::parameter && wanted(a.parameter_gradients, i) != nullptr);
    any = any || of_operand[o];
  }
  const Backward& b = backward_for(of_operand);
  if (b.by_sample) {
    by_sample(b, a);
    return;
  }
  for (std::size_t i = 0; i < input_elements_.size(); ++i) {
    float* const dx = wanted(a.input_gradients, i);
    if (dx != nullptr && b.zero[i] && b.written[i]) {
      std::fill_n(dx, samples_ * input_elements_[i], 0.0f);
    }
  }
  for (std::size_t p = 0; p < parameter_elements_.size(); ++p) {
    if (float* const d = wanted(a.parameter_gradients, p)) {
      std::fill_n(d, parameter_elements_[p], 0.0f);
    }
  }
  if (any) by_piece(b, a);
  // Last: it may lie where the output's gradient does.
  for (std::size_t i = 0; i < input_elements_.size(); ++i) {
    float* const dx = wanted(a.input_gradients, i);
    if (dx != nullptr && !b.written[i]) std::fill_n(dx, samples_ * input_elements_[i], 0.0f);
  }
}

// Every place is written once: in any order.
void PointwiseKernel::by_piece(const Backward& b, const BackwardArguments& a) {
  const std::vector<BlockSource> from = sources(all_, b, a);
  std::vector<BlockSink> sinks;
  for (std::size_t o = 0; o < spec_.operands.size(); ++o) {
    sinks.push_back({b.sinks[o], all_.lanes[o]});
    if (b.sinks[o] == Sink::none) continue;
    sinks.back().floats =
        wanted(a.input_gradients, static_cast<std::size_t>(spec_.operands[o].index));
  }
  pieces(all_.loops.elements(), piece_of(all_.loops), [&](std::int64_t begin, std::int64_t end) {
    BlockPass pass(all_, b.program, spec_.operands.size() + 2);
    pass.run(begin, end, from, sinks);
  });
}

// Places are written several times: sample by sample, each in the order of its elements.
// Parameters' gradients are added up over groups of samples, which do not depend on the number of
// threads, and then over the groups in order.
void PointwiseKernel::by_sample(const Backward& b, const BackwardArguments& a) {
  const std::size_t inputs = input_elements_.size(), operands = spec_.operands.size();
  std::int64_t parameter_sums = 0, input_sums = 0;
  std::vector<std::int64_t> parameter_at, input_at;
  for (std::size_t p = 0; p < parameter_elements_.size(); ++p) {
    parameter_at.push_back(parameter_sums);
    if (wanted(a.parameter_gradients, p) != nullptr) parameter_sums += parameter_elements_[p];
  }
  for (std::size_t i = 0; i < inputs; ++i) {
    input_at.push_back(input_sums);
    if (b.sums[i] && wanted(a.input_gradients, i) != nullptr) input_sums += input_elements_[i];
  }
  const std::int64_t most =
      std::clamp<std::int64_t>((1 << 20) / std::max<std::int64_t>(1, parameter_sums), 2, 16);
  const std::int64_t of_group = (samples_ + most - 1) / most;
  const std::int64_t groups = (samples_ + of_group - 1) / of_group;
  std::vector<double> sums(static_cast<std::size_t>(groups * parameter_sums), 0.0);
  const std::vector<BlockSource> from = sources(sample_, b, a);
  const std::int64_t elements = sample_.loops.elements();

  parallel_for(threads_, groups, [&](std::int64_t group) {
    std::vector<double> own(static_cast<std::size_t>(input_sums), 0.0);
    std::vector<BlockSource> moved = from;
    std::vector<BlockSink> sinks(operands);
    BlockPass pass(sample_, b.program, operands + 2);
    for (std::int64_t n = group * of_group; n < std::min(samples_, (group + 1) * of_group); ++n) {
      for (std::size_t s = 0; s < from.size(); ++s) {
        const Operand* const o = from[s].lane.operand;
        const std::int64_t step = o == nullptr ? elements
                                  : o->source == Source::input
                                      ? input_elements_[static_cast<std::size_t>(o->index)]
                                      : 0;
        moved[s].base = from[s].base + n * step;
      }
      for (std::size_t o = 0; o < operands; ++o) {
        const auto i = static_cast<std::size_t>(spec_.operands[o].index);
        sinks[o] = {b.sinks[o], sample_.lanes[o]};
        if (b.sinks[o] == Sink::none) continue;
        if (spec_.operands[o].source == Source::parameter) {
          sinks[o].sums = sums.data() + group * parameter_sums + parameter_at[i];
        } else if (b.sums[i]) {
          sinks[o].sums = own.data() + input_at[i];
        } else {
          sinks[o].floats = wanted(a.input_gradients, i) + n * input_elements_[i];
        }
      }
      for (std::size_t i = 0; i < inputs; ++i) {
        float* const dx = wanted(a.input_gradients, i);
        if (dx == nullptr || !b.zero[i]) continue;
        std::fill_n(dx + n * input_elements_[i], input_elements_[i], 0.0f);
      }
      pass.run(0, elements, moved, sinks);
      for (std::size_t i = 0; i < inputs; ++i) {
        float* const dx = wanted(a.input_gradients, i);
        if (dx == nullptr || !b.sums[i]) continue;
        loops::round_sums(dx + n * input_elements_[i], own.data() + input_at[i],
                          input_elements_[i]);
      }
      std::fill(own.begin(), own.end(), 0.0);
    }
  });

  for (std::int64_t g = 1; g < groups; ++g) {
    for (std::int64_t e = 0; e < parameter_sums; ++e) {
      sums[static_cast<std::size_t>(e)] += sums[static_cast<std::size_t>(g * parameter_sums + e)];
    }
  }
  for (std::size_t p = 0; p < parameter_elements_.size(); ++p) {
    float* const d = wanted(a.parameter_gradients, p);
    if (d != nullptr) loops::round_sums(d, sums.data() + parameter_at[p], parameter_elements_[p]);
  }
}

}  // namespace

std::unique_ptr<LayerKernel> make_pointwise(const Pointwise& spec, const std::vector<Shape>& inputs,
                                            int threads) {
  return std::make_unique<PointwiseKernel>(spec, inputs, threads);
}

}  // namespace hetpipe
