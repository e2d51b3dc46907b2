// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "base/error.h"
#include "kernels/shape.h"

namespace hetpipe {

// The value of --sample: "28x28x1", or "64" of a text; nothing when it is not of this form.
std::optional<Shape> try_parse_sample(const std::string& text);
void check_sample(const std::string& text, Problems& problems);

}  // namespace hetpipe
