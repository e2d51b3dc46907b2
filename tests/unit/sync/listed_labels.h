// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <vector>

#include "base/ids.h"

namespace hetpipe::test {

// CheckpointRule::next of these labels, ascending.
inline std::function<std::optional<Label>(Label)> listed(std::vector<Label> labels) {
  return [labels = std::move(labels)](Label after) -> std::optional<Label> {
    const auto next = std::upper_bound(labels.begin(), labels.end(), after);
    return next == labels.end() ? std::nullopt : std::optional(*next);
  };
}

}  // namespace hetpipe::test
