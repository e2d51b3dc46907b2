// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace hetpipe {

// For HTML, SVG and XML: text between tags or in a quoted attribute. Control characters and bytes
// that are not UTF-8 become question marks.
std::string markup_text(std::string_view text);

}  // namespace hetpipe
