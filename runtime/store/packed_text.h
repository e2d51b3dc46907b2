// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace hetpipe {

// Deflated (zlib's format, which browsers unpack by themselves) and written in base64.
std::string packed_text(std::string_view bytes);

}  // namespace hetpipe
