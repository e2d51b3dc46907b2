// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "launch/compare/results.h"

namespace hetpipe {

// One row per entry, then the reasons why some have no numbers. For a terminal, as Markdown (with
// the conditions and the picture), and as JSON.
std::string comparison_text(const Comparison& comparison);
std::string comparison_markdown(const Comparison& comparison);
std::string comparison_json(const Comparison& comparison);

// Accuracy over training time as a picture (SVG): a line per entry, thin ones for single seeds
// where there are several, the target dashed.
std::string accuracy_svg(const Comparison& comparison);

}  // namespace hetpipe
