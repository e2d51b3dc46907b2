// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "transport_scenarios.h"

namespace hetpipe {

// Payloads in pieces, and messages of the memory of devices, played like transport_scenarios().
const std::vector<Scenario>& device_scenarios();

// Direct paths between devices, and what becomes of those that do not work.
const std::vector<Scenario>& path_scenarios();

// NCCL's path over a double, which knows ranks as threads alone.
const std::vector<Scenario>& nccl_scenarios();

}  // namespace hetpipe
