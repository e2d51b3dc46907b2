// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/block_program.h"

#include <algorithm>

#include "kernels/pointwise_operators.h"

namespace hetpipe {

BlockProgram::BlockProgram(const Expression& expression, const std::vector<int>& results)
    : steps_(expression.steps), results_(results), number_of_step_(steps_.size(), -1) {
  // How often each step is read; products with a slope that nothing else reads are one loop.
  std::vector<int> readers(steps_.size(), 0);
  for (const Expression::Step& s : steps_) {
    for (const int a : s.arguments) {
      if (a >= 0) ++readers[static_cast<std::size_t>(a)];
    }
  }
  for (const int r : results_) {
    if (r >= 0) ++readers[static_cast<std::size_t>(r)];
  }
  std::vector<loops::PointwiseLoop> scaled(steps_.size(), nullptr);
  std::vector<bool> taken(steps_.size(), false);
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    Expression::Step& s = steps_[i];
    if (s.kind != Expression::Kind::apply || s.op.row != pointwise::k_mul) continue;
    for (const std::size_t k : {std::size_t{1}, std::size_t{0}}) {
      const auto a = static_cast<std::size_t>(s.arguments[k]);
      const Expression::Step& slope = steps_[a];
      if (slope.kind != Expression::Kind::apply || readers[a] != 1 || taken[a]) continue;
      scaled[i] = loops::scaled_loop(slope.op.row);
      if (scaled[i] == nullptr) continue;
      taken[a] = true;
      s.arguments = {slope.arguments[0], s.arguments[1 - k], -1};
      break;
    }
  }
  // The last instruction that reads each step; results are read at the end.
  std::vector<std::size_t> last(steps_.size(), 0);
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    if (taken[i]) continue;
    for (const int a : steps_[i].arguments) {
      if (a >= 0) last[static_cast<std::size_t>(a)] = i;
    }
  }
  for (const int r : results_) {
    if (r >= 0) last[static_cast<std::size_t>(r)] = steps_.size();
  }
  std::vector<int> registers(steps_.size(), -1), free;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const Expression::Step& s = steps_[i];
    if (s.kind == Expression::Kind::number) {
      number_of_step_[i] = static_cast<int>(numbers_.size() / kBlock);
      numbers_.insert(numbers_.end(), kBlock, s.number);
    }
    if (s.kind != Expression::Kind::apply || taken[i]) continue;
    Instruction in{scaled[i] != nullptr ? scaled[i] : loops::pointwise_loop(s.op.row),
                   s.arguments[0],
                   s.arguments[1],
                   s.arguments[2],
                   static_cast<int>(i),
                   -1,
                   -1};
    // Arguments that end here lend their register to the value.
    for (std::size_t k = 0; k < 3; ++k) {
      const int a = s.arguments[k];
      if (a < 0 || last[static_cast<std::size_t>(a)] != i) continue;
      int& own = registers[static_cast<std::size_t>(a)];
      if (own >= 0) free.push_back(own);
      own = -1;
    }
    if (free.empty()) free.push_back(registers_++);
    in.own = registers[i] = free.back();
    free.pop_back();
    const auto found = std::find(results_.begin(), results_.end(), in.step);
    if (found != results_.end()) in.result = static_cast<int>(found - results_.begin());
    instructions_.push_back(in);
  }
}

BlockProgram::Workspace BlockProgram::workspace() const {
  Workspace w;
  w.registers.resize(static_cast<std::size_t>(registers_ * kBlock));
  w.values.resize(steps_.size());
  w.results.resize(results_.size());
  return w;
}

void BlockProgram::run(Workspace& w, const float* const* variables, float* const* targets,
                       std::int64_t count) const {
  const auto at = [](int i) { return static_cast<std::size_t>(i); };
  bool aliased = false;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    if (steps_[i].kind == Expression::Kind::variable) {
      w.values[i] = variables[steps_[i].variable];
      for (std::size_t r = 0; r < results_.size(); ++r) {
        aliased = aliased || (targets[r] != nullptr && targets[r] == w.values[i]);
      }
    } else if (number_of_step_[i] >= 0) {
      w.values[i] = numbers_.data() + number_of_step_[i] * kBlock;
    }
  }
  for (std::size_t k = 0; k < instructions_.size(); ++k) {
    const Instruction& in = instructions_[k];
    float* to = w.registers.data() + in.own * kBlock;
    // Nobody reads a variable after the last instruction of a single result.
    const bool last = k + 1 == instructions_.size() && results_.size() == 1;
    const bool at_once = !aliased || last;
    if (in.result >= 0 && targets[in.result] != nullptr && at_once) to = targets[in.result];
    const float* const x = w.values[at(in.x)];
    in.loop(to, x, in.y < 0 ? x : w.values[at(in.y)], in.z < 0 ? x : w.values[at(in.z)], count);
    w.values[at(in.step)] = to;
  }
  for (std::size_t r = 0; r < results_.size(); ++r) {
    w.results[r] = results_[r] < 0 ? nullptr : w.values[at(results_[r])];
  }
  // Variables first: a target may be one.
  for (const bool variables_turn : {true, false}) {
    for (std::size_t r = 0; r < results_.size(); ++r) {
      if (targets[r] == nullptr || results_[r] < 0 || w.results[r] == targets[r]) continue;
      const Expression::Kind kind = steps_[at(results_[r])].kind;
      if ((kind == Expression::Kind::variable) != variables_turn) continue;
      std::copy_n(w.results[r], count, targets[r]);
    }
  }
}

}  // namespace hetpipe
