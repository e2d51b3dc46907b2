// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch/doctor/checks.h"
#include "launch/doctor/options.h"

namespace hetpipe {

// What was seen, and made of it.
struct Diagnosis {
  std::vector<DoctorFacts> facts;  // by rank
  std::optional<Roles> roles;
  std::vector<FoundDevice> devices;  // by rank; empty without roles
  std::vector<PairLink> links;
  std::vector<double> clocks;  // s, by rank: before rank 0's
  std::optional<OutputFacts> output;
  std::vector<Check> checks;  // of rank 0 alone
};

struct DoctorCall {
  DoctorOptions options;
  std::string command;           // all words, for launch lines
  std::string configuration;     // all options, as a file
  std::string mpi;               // what the library says of itself; empty: it was not started
  std::vector<Problem> refused;  // why the ranks have no MPI world in common; else empty
  std::string lifelines;         // Lifeline::problem()
};

// All ranks together: they say what they are, look at what they are given, test all links, and rank
// 0 makes findings of it. Throws MachineFailed where a rank fails in it.
Diagnosis examine(const DoctorCall& call, Transport& transport, LinkTests& links);

// For people: ranks, what was looked at, findings; or one JSON document.
std::string diagnosis_text(const Diagnosis& diagnosis);
std::string diagnosis_json(const Diagnosis& diagnosis);

}  // namespace hetpipe
