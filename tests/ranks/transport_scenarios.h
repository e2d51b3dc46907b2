// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "runtime/transport/link_emulation.h"
#include "runtime/transport/transport.h"

// What every transport must do, played by all ranks together; the same code runs on threads and
// under mpirun.
namespace hetpipe {

// Tests use small pieces so that splitting happens with small payloads.
inline constexpr std::uint64_t kTestPieceBytes = 64 * 1024;

// A clock shared by all ranks.
using MakeClock = std::function<std::shared_ptr<LinkClock>(Transport&, int resources)>;

struct Scenario {
  const char* name;
  int min_ranks;
  std::function<void(Transport&, const MakeClock&)> play;
};
const std::vector<Scenario>& transport_scenarios();

}  // namespace hetpipe
