// SPDX-License-Identifier: Apache-2.0
#include "base/precision.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace hetpipe {

const std::vector<std::string>& precision_names() {
  static const std::vector<std::string> names{"fp32", "tf32", "bf16", "fp16"};
  return names;
}

std::string to_string(Precision precision) {
  return precision_names()[static_cast<std::size_t>(precision)];
}

Precision precision_named(const std::string& name) {
  const auto& names = precision_names();
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) {
    throw UserError("--precision", unknown("precision", name, names) + ". Choose one of them.");
  }
  return static_cast<Precision>(found - names.begin());
}

}  // namespace hetpipe
