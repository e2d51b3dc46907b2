// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/search_starts.h"

namespace hetpipe {
namespace {

constexpr double kPromising = 0.85;    // of the best so far: worth improving
constexpr double kPromisingRow = 0.5;  // the same of the best of a row

}  // namespace

bool Starts::take(const ScoredPlan& plan, double best) {
  std::size_t& of_space = of_space_[plan.space];
  const double least = of_space == 0 ? kPromisingRow : kPromising;
  if (plan.worth < least * best || of_space == limits_.of_space) return false;
  std::size_t& of_number = of_number_[{plan.space, plan.plan.virtual_workers.size()}];
  if (of_number == limits_.of_number) return false;
  ++of_space;
  ++of_number;
  ++taken_;
  return true;
}

}  // namespace hetpipe
