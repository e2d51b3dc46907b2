// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "launch/command/subcommand.h"

namespace hetpipe {
namespace {

constexpr std::array kTraceActions{
    Subcommand{"summary", "shows where each rank's time went", trace_summary},
    Subcommand{"export", "writes a run's actions for other programs, or to be replayed",
               trace_export},
};

}  // namespace

int trace_command(const Invocation& how) {
  return run_action({"trace", "RUN [options]",
                     "Shows the trace of a run, or turns it into files. RUN is a run directory, or "
                     "one of its trace folders.",
                     kTraceActions},
                    how);
}

}  // namespace hetpipe
