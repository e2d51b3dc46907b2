// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cpu/pointwise_loops.h"
#include "kernels/expression.h"

// An expression as a list of loops over blocks that stay in the nearest cache.
namespace hetpipe {

class BlockProgram {
 public:
  static constexpr std::int64_t kBlock = 512;  // elements, at most, unless any_length()

  // What one thread needs.
  struct Workspace {
    std::vector<float> registers;
    std::vector<const float*> values;   // of each step
    std::vector<const float*> results;  // where the results lie after run()
  };

  BlockProgram() = default;
  // `results`: steps, as many times as they are wanted; -1: none.
  BlockProgram(const Expression& expression, const std::vector<int>& results);

  // A single loop from variables to a target.
  bool any_length() const {
    return instructions_.size() == 1 && results_.size() == 1 && numbers_.empty();
  }
  Workspace workspace() const;
  // `targets`, by result: where it is to lie; null: anywhere. A target may be a variable's block
  // where all results have targets.
  void run(Workspace& w, const float* const* variables, float* const* targets,
           std::int64_t count) const;

 private:
  struct Instruction {
    loops::PointwiseLoop loop;
    int x, y, z;  // steps
    int step;
    int own;     // register
    int result;  // the first that it is; -1: none
  };
  std::vector<Expression::Step> steps_;
  std::vector<Instruction> instructions_;
  std::vector<int> results_;
  std::vector<float> numbers_;       // a block of each
  std::vector<int> number_of_step_;  // -1: it is none
  int registers_ = 0;
};

}  // namespace hetpipe
