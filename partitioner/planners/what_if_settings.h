// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "partitioner/cluster/cluster.h"

// The changes of --what-if that set something, rather than adding or removing devices.
namespace hetpipe {

// All changes, for messages.
inline constexpr const char* kChangeGrammar =
    "Write +N TYPE @NODE, -NODE, -NODE:INDEX, -N TYPE [@NODE], links x2, inter x2, intra x2, "
    "link NODE NODE x2 or minibatch = 64, separated by commas.";

std::string trimmed(std::string_view text);  // of spaces and tabs at both ends

// Whether it is one of "links x2", "intra x0.5", "inter = 12.5e9", "link n0 n1 = 10Gb/s" and
// "minibatch = 64", or a word in their place.
bool is_setting(const std::string& text);

// UserError under `where` that names what is wrong with it.
void apply_setting(const std::string& text, Cluster& cluster, std::optional<int>& minibatch,
                   const std::string& where);

}  // namespace hetpipe
