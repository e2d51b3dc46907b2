// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "launch/trace/aligned.h"
#include "partitioner/cluster/cluster.h"
#include "partitioner/plan/plan.h"
#include "partitioner/profile/profile.h"
#include "partitioner/simulator/simulate.h"
#include "runtime/store/trace.h"

// A run as its directory tells it, whether it ended or was killed; or a simulation in its place.
namespace hetpipe {

struct RunText {
  std::string name;  // in the run directory
  std::string text;
  std::string hash;  // of the whole file
};

struct ReportedRun {
  std::string name;  // as given
  std::filesystem::path folder;
  Json result;  // result.json; null: there is none
  Plan plan;
  std::optional<Cluster> cluster;
  std::optional<Profile> profile;
  std::vector<Trace> traces;                // by rank; those that can be read
  std::optional<AlignedTraces> timeline{};  // of them
  std::vector<RunText> texts;               // its options, input and log, as far as they are there
  std::vector<std::string> missing;         // what is not there, and what the page lacks therefore

  std::string plan_file;  // for commands: as it was given

  // Of hetpipe simulate, in place of a result: what was simulated, and the command without its
  // plan.
  std::optional<Simulation> simulation{};
  std::vector<std::string> simulated_by{};

  const Trace* trace_of(int virtual_worker, int stage, int replica) const;
  std::optional<double> number(std::string_view key) const;  // of the result
};

// At most so many bytes of a text: of a longer one its start and end, in whole lines.
std::string shortened_text(const std::string& text, std::size_t most);

// `run`: a run directory, or a folder of traces inside of one. UserError where it is no run: no
// plan, and neither a result nor a trace, with the file that lacks and what to do.
ReportedRun read_run(const std::string& run);

}  // namespace hetpipe
