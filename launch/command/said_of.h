// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/error.h"

namespace hetpipe {

// Problems without a place, or of "the plan", get the name of this file.
template <class Make>
auto said_of(const std::string& file, Make make) {
  try {
    return make();
  } catch (const UserError& error) {
    std::vector<Problem> problems = error.problems();
    for (Problem& problem : problems) {
      if (problem.where.empty()) problem.where = file;
      if (problem.where == "plan" || problem.where.starts_with("plan:"))
        problem.where.replace(0, 4, file);
    }
    throw UserError(std::move(problems));
  }
}

}  // namespace hetpipe
