// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launch/doctor/checks.h"
#include "tests/unit/launch/probe/invented.h"

// Facts that lie, for tests of what a doctor makes of them.
namespace hetpipe::test {

inline DoctorFacts fact(const std::string& host, std::vector<SeenCard> cards = {}) {
  DoctorFacts facts;
  facts.machine = rank_on(host, std::move(cards));
  facts.launcher = "mpirun";
  facts.started = facts.world = 3;
  facts.versions = {{"hetpipe", "build 5"}, {"MPI", "Open MPI v4.1.4"}, {"kernel", "6.1"}};
  return facts;
}
inline std::vector<DoctorFacts> three_hosts() { return {fact("n0"), fact("n1"), fact("n2")}; }

inline std::vector<std::string> said(const Check& check) {
  std::vector<std::string> texts;
  for (const Finding& finding : check.findings) {
    texts.push_back(std::string(to_string(finding.severity)) + ": " + sentence(finding));
  }
  return texts;
}

// Two stages on a:0 and b:0, a server on b: three ranks.
inline PlannedRun planned(const std::string& kind, bool emulated = false) {
  PlannedRun run;
  run.has_plan = true;
  run.files = "plan.toml";
  run.job.plan = parse_plan(
      "format = 1\nsystem = \"hetpipe\"\nmodel = \"mlp\"\nminibatch = 8\nin_flight = 2\n"
      "[[virtual_worker]]\n[[virtual_worker.stage]]\nlayers = [0, 3]\ndevices = [\"a:0\"]\n"
      "[[virtual_worker.stage]]\nlayers = [3, 7]\ndevices = [\"b:0\"]\n"
      "[parameter_server]\nnodes = [\"b\"]\n",
      "plan.toml");
  run.job.cluster = parse_cluster(
      "format = 1\n[device." + kind + "]\nmemory = 1000000000\n" +
          (emulated ? "emulate = { slowdown = 1.0 }\n" : "") +
          "[[node]]\nname = \"a,b\"\ndevices = [\"" + kind +
          "\"]\n[link.intra_node]\nbandwidth = 1e9\n[link.inter_node]\nbandwidth = 1e9\n",
      "cluster.toml");
  run.job.device = "auto";
  return run;
}
inline std::vector<DoctorFacts> planned_hosts() { return {fact("a"), fact("b"), fact("b")}; }

inline Roles roles_of(const PlannedRun& run, const std::vector<DoctorFacts>& facts) {
  std::optional<Roles> roles;
  const Check check = check_plan_ranks(run, facts, "hetpipe doctor", roles);
  EXPECT_THAT(check.findings, testing::IsEmpty());
  return roles.value();
}

}  // namespace hetpipe::test
