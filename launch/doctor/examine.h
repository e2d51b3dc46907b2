// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch/doctor/checks.h"
#include "launch/doctor/options.h"

namespace hetpipe {

// The facts, and the findings from them.
struct Diagnosis {
  std::vector<DoctorFacts> facts;  // by rank
  std::optional<Roles> roles;
  std::vector<FoundDevice> devices;  // by rank; empty without roles
  std::vector<PairLink> links;
  std::vector<double> clocks;  // s, by rank: before rank 0's
  std::vector<DataSeen> data;  // by rank; empty: not looked at
  std::optional<OutputFacts> output;
  std::vector<Check> checks;  // of rank 0 alone
};

struct DoctorCall {
  DoctorOptions options;
  std::string command;           // all words, for launch lines
  std::string configuration;     // all options, as a file
  std::string mpi;               // version text of the library; empty: it was not started
  std::vector<Problem> refused;  // why the ranks have no MPI world in common; else empty
  std::string lifelines;         // Lifeline::problem()
};

// All ranks together: they report what they are, check what they have, test all links, and rank
// 0 derives the findings. Throws MachineFailed if a rank fails during this.
Diagnosis examine(const DoctorCall& call, Transport& transport, LinkTests& links);

// As text: ranks, checks, findings; or as one JSON document.
std::string diagnosis_text(const Diagnosis& diagnosis);
std::string diagnosis_json(const Diagnosis& diagnosis);

}  // namespace hetpipe
