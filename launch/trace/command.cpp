// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "launch/command/subcommand.h"

namespace hetpipe {
namespace {

constexpr std::array kTraceActions{
    Subcommand{"export", "writes what each action of a run took, to be replayed", trace_export},
};

}  // namespace

int trace_command(const Invocation& how) {
  return run_action(
      {"trace", "RUN [options]",
       "Turns the trace of a run into files. RUN is a run directory, or one of its trace folders.",
       kTraceActions},
      how);
}

}  // namespace hetpipe
