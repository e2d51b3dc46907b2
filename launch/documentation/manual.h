// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "launch/documentation/commands.h"

// Manual pages in the language of man(7).
namespace hetpipe {

// Dated "2026-11-23".
std::string manual_of_hetpipe(const std::string& date);
std::string manual_of(const DocumentedCommand& command, const std::string& date);
std::string manual_name(const std::string& command);  // "hetpipe-checkpoint-info", of a page in .1

// Words as a page holds them, a sentence on each line, so that nothing in them is taken for a
// request.
std::string roff_text(const std::string& text);

}  // namespace hetpipe
