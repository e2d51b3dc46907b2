// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "launch/evaluate/evaluation.h"

// What `hetpipe evaluate` prints.
namespace hetpipe {

struct EvaluatedWhat {
  std::string checkpoint{}, model{}, data{}, split{}, device{};
  bool by_the_character = false;              // tokens are bytes of a text
  std::vector<std::string> class_names = {};  // empty: not known
};

std::string evaluation_text(const Evaluation& evaluation, const EvaluatedWhat& what,
                            bool confusion);
Json evaluation_json(const Evaluation& evaluation, const EvaluatedWhat& what);

}  // namespace hetpipe
