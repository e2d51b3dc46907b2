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
    "link NODE NODE x2, minibatch = 64, in-flight = 4 or clock-distance = 1, separated by commas.";

// What changes set of a plan; absent: nothing.
struct PlanSettings {
  std::optional<int> minibatch = {};  // samples, of every virtual worker
  std::optional<int> in_flight = {};  // Nm
  std::optional<int> clock_distance = {};
  bool operator==(const PlanSettings&) const = default;
};

// Whether it is one of "links x2", "intra x0.5", "inter = 12.5e9", "link n0 n1 = 10Gb/s",
// "minibatch = 64", "in-flight = 4" and "clock-distance = 1", or a word in their place.
bool is_setting(const std::string& text);

// UserError under `where` that names what is wrong with it.
void apply_setting(const std::string& text, Cluster& cluster, PlanSettings& settings,
                   const std::string& where);

}  // namespace hetpipe
