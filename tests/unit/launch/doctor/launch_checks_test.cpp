// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/base/travels.h"
#include "tests/unit/launch/doctor/lying.h"

namespace hetpipe {
namespace launch_checks_test {

using test::fact;
using test::planned;
using test::planned_hosts;
using test::said;
using test::three_hosts;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// --- findings
// --------------------------------------------------------------------------------------

TEST(Finding, FromTheGrammarAndBack) {
  const Problem problem{"plan.toml:7", "layers = 0 (must be positive (as all)). Leave it out."};
  const Finding finding = finding_from(Severity::mistake, problem);
  EXPECT_EQ(finding, (Finding{Severity::mistake, "plan.toml:7", "layers = 0",
                              "must be positive (as all)", "Leave it out."}));
  EXPECT_EQ(sentence(finding), problem.where + ": " + problem.text);
  for (const char* plain : {"is gone", "is (gone", "is gone (really)", ""}) {
    EXPECT_EQ(finding_from(Severity::note, {"", plain}).what, plain);
    EXPECT_EQ(sentence(finding_from(Severity::note, {"", plain})), plain);
  }
}

TEST(Finding, TheWorstDecides) {
  const Finding note{Severity::note, "", "n", "", ""};
  const Finding mistake{Severity::mistake, "", "m", "", ""};
  const Finding failure{Severity::failure, "", "f", "", ""};
  EXPECT_EQ(exit_code_of({}), ExitCode::done);
  EXPECT_EQ(exit_code_of({{"a", "", {note}}, {"b", "", {}}}), ExitCode::done);
  EXPECT_EQ(exit_code_of({{"a", "", {mistake}}, {"b", "", {note}}}), ExitCode::user);
  EXPECT_EQ(exit_code_of({{"a", "", {failure}}, {"b", "", {mistake}}}), ExitCode::system);
}

// --- launcher
// ----------------------------------------------------------------------------------------

TEST(DoctorFacts, TravelAsTheyAre) { test::expect_all_travels(test::filled<DoctorFacts>()); }

TEST(CheckLaunch, OneWorld) {
  const Check check = check_launch(three_hosts(), {}, "");
  EXPECT_THAT(check.findings, IsEmpty());
  EXPECT_EQ(check.seen, "mpirun: 3 ranks on 3 hosts, Open MPI v4.1.4");
}

TEST(CheckLaunch, WithoutPmixTheRemedyKnowsWhatThisSlurmHas) {
  DoctorFacts alone = fact("n0");
  alone.launcher = "srun";
  const std::vector<Problem> refused{{"", "srun started 3 ranks without PMIx (why). Do that."}};
  const auto offers = [&](const std::string& list) {
    return said(check_launch({alone}, refused, list));
  };
  EXPECT_THAT(offers("MPI plugin types are...\n\tpmix_v4\n\tnone\n"),
              ElementsAre("mistake: srun started 3 ranks without PMIx (why). Do that.\n"
                          "This Slurm offers: MPI plugin types are... pmix_v4 none."));
  EXPECT_THAT(
      offers("MPI plugin types are...\n\tpmi2\n\tnone\n"),
      ElementsAre(AllOf(HasSubstr("pmi2 none. pmix is not among them"), HasSubstr("with mpirun"))));
  EXPECT_THAT(offers(""), ElementsAre(HasSubstr("Do that.")));
}

TEST(CheckJob, AJobThatIsNotRequeued) {
  const std::string job = "JobId=17 Requeue=0 Restarts=0 TimeLimit=00:30:00 NumNodes=2\n";
  EXPECT_THAT(said(check_job("17", job)),
              ElementsAre(AllOf(HasSubstr("note: job 17"), HasSubstr("--requeue"))));
  EXPECT_EQ(check_job("17", job).seen, "17, time limit 00:30:00");
  EXPECT_THAT(check_job("17", "JobId=17 Requeue=1 TimeLimit=1:00").findings, IsEmpty());
  EXPECT_THAT(check_job("17", "").findings, IsEmpty());
}

// --- plan
// --------------------------------------------------------------------------------------------

TEST(CheckPlanRanks, NumberAndHosts) {
  const PlannedRun run = planned("rtx-3090");
  std::optional<Roles> roles;
  EXPECT_THAT(said(check_plan_ranks(run, {fact("a"), fact("b")}, "hetpipe doctor", roles)),
              ElementsAre(AllOf(HasSubstr("mistake: the plan needs 3 ranks"),
                                HasSubstr("mpirun -np 3 --host a:1,b:2 hetpipe doctor"))));
  EXPECT_FALSE(roles);
  EXPECT_THAT(
      said(check_plan_ranks(run, {fact("a"), fact("c"), fact("c")}, "hetpipe doctor", roles)),
      ElementsAre(AllOf(HasSubstr("mistake: plan.toml: node 'b' has 1 workers"),
                        HasSubstr("hosts: a x1, c x2"))));
  EXPECT_FALSE(roles);
  EXPECT_THAT(check_plan_ranks(run, planned_hosts(), "hetpipe doctor", roles).findings, IsEmpty());
  EXPECT_TRUE(roles);
}

TEST(CheckPlanRanks, FilesAreNamedWithTheirPlace) {
  PlannedRun run;
  run.files = "plan.toml";
  run.problems = {{"plan.toml:3", "is wrong (why). Do that."}, {"plan.toml:9", "too (why). Do."}};
  std::optional<Roles> roles;
  EXPECT_THAT(said(check_plan_ranks(run, three_hosts(), "", roles)),
              ElementsAre("mistake: plan.toml:3: is wrong (why). Do that.",
                          "mistake: plan.toml:9: too (why). Do."));
  run.problems.clear();
  run.notes = {"rtx-3090: estimated (it was not measured). Measure it."};
  EXPECT_THAT(said(check_plan_ranks(run, three_hosts(), "", roles)),
              ElementsAre("note: rtx-3090: estimated (it was not measured). Measure it."));
}

TEST(CheckPlanRanks, AClusterWithoutAPlan) {
  PlannedRun run = planned("rtx-3090");
  run.has_plan = false;
  run.files = "lab.toml";
  std::optional<Roles> roles;
  EXPECT_THAT(
      said(check_plan_ranks(run, {fact("a.domain"), fact("c")}, "", roles)),
      ElementsAre(HasSubstr("mistake: lab.toml: no rank on b (the launch has ranks on a, c)")));
  EXPECT_THAT(check_plan_ranks(run, planned_hosts(), "", roles).findings, IsEmpty());
}

TEST(CheckPlanRanks, RanksAndDevicesOfAnAllocationMeet) {
  PlannedRun run = planned("rtx-3090");  // a device on each of a and b
  run.has_plan = false;
  run.from_allocation = true;
  run.files = "Slurm job 17, lab.toml";
  std::optional<Roles> roles;
  const Check met = check_plan_ranks(run, planned_hosts(), "", roles);
  EXPECT_THAT(met.findings, IsEmpty());
  EXPECT_EQ(met.seen, "Slurm job 17, lab.toml: 2 of 2 devices have a rank, 1 ranks have no device");
  EXPECT_THAT(said(check_plan_ranks(run, {fact("a")}, "", roles)),
              ElementsAre(HasSubstr("note: Slurm job 17, lab.toml: b has no rank")));
  EXPECT_THAT(said(check_plan_ranks(run, {fact("c")}, "", roles)),
              ElementsAre(HasSubstr("mistake: Slurm job 17, lab.toml: has no device for any of")));
  run.job.cluster = Cluster{};
  EXPECT_THAT(check_plan_ranks(run, planned_hosts(), "", roles).findings, IsEmpty());
  // With a pool it is known that these nodes have none: hetpipe train refuses.
  run.from_pool = true;
  EXPECT_THAT(said(check_plan_ranks(run, planned_hosts(), "", roles)),
              ElementsAre(HasSubstr("mistake: Slurm job 17, lab.toml: has no device for any of")));
}

// --- versions
// ------------------------------------------------------------------------------------------

TEST(CheckVersions, TwoOfWhatHasToAgree) {
  std::vector<DoctorFacts> facts = three_hosts();
  EXPECT_THAT(check_versions(facts).findings, IsEmpty());
  facts[1].versions["MPI"] = "Open MPI v4.1.6";
  facts[2].versions["MPI"] = "Open MPI v4.1.6";
  facts[2].versions["hetpipe"] = "build 6";
  facts[0].versions["kernel"] = "6.2";
  facts[2].versions["CUDA runtime"] = "libcudart.so.13";  // on that host alone
  EXPECT_THAT(
      said(check_versions(facts)),
      ElementsAre(HasSubstr("failure: MPI: 2 versions: Open MPI v4.1.4 at rank 0 on n0; Open "
                            "MPI v4.1.6 at ranks 1 and 2 on n1 and n2 ("),
                  AllOf(HasSubstr("failure: hetpipe: 2 versions: build 5 at ranks 0 and 1"),
                        HasSubstr("Install the same build on all hosts.")),
                  HasSubstr("note: kernel: 2 versions: 6.2 at rank 0 on n0; 6.1 at")));
}

TEST(Versions, OfThisProcess) {
  const Versions versions = versions_here("Open MPI v9");
  EXPECT_EQ(versions.at("MPI"), "Open MPI v9");
  EXPECT_THAT(versions.at("oneDNN"), HasSubstr("libdnnl.so"));
  EXPECT_THAT(versions.at("HDF5"), HasSubstr(".so"));
  EXPECT_EQ(versions.count("kernel"), 1u);
  EXPECT_TRUE(has_to_agree("oneDNN"));
  EXPECT_FALSE(has_to_agree("glibc"));
  EXPECT_EQ(library_name("libcudnn.so.9"), "cuDNN");
  EXPECT_EQ(library_name("libcudnn_ops.so.9"), "");
}

}  // namespace launch_checks_test
}  // namespace hetpipe
