// SPDX-License-Identifier: Apache-2.0
#include "launch/allocation/allocation.h"
#include "tests/unit/base/travels.h"
#include "tests/unit/launch/doctor/lying.h"

namespace hetpipe {
namespace place_checks_test {

using test::fact;
using test::planned;
using test::planned_hosts;
using test::roles_of;
using test::rtx_3090;
using test::said;
using test::unknown_card;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// --- devices
// -------------------------------------------------------------------------------------------

std::vector<FoundDevice> devices_of(const std::vector<DoctorFacts>& facts) {
  std::vector<FoundDevice> devices;
  for (const DoctorFacts& rank : facts) {
    FoundDevice& found = devices.emplace_back();
    if (rank.machine.cards.empty()) continue;
    const GpuInfo& gpu = rank.machine.cards.front().gpu;
    found.device.card = gpu.name;
    found.device.uuid = gpu.uuid;
    found.device.memory = static_cast<std::int64_t>(gpu.memory);
  }
  return devices;
}

std::vector<std::string> said_of_devices(const PlannedRun& run,
                                         const std::vector<DoctorFacts>& facts) {
  return said(check_devices(run, facts, roles_of(run, facts), devices_of(facts)));
}

TEST(FoundDevice, TravelsAsItIs) { test::expect_all_travels(test::filled<FoundDevice>()); }

TEST(CheckDevices, AWorkerWithoutTheCardOfItsPlan) {
  const PlannedRun run = planned("rtx-3090");
  EXPECT_THAT(
      said_of_devices(run, {fact("a", {rtx_3090("x")}), fact("b", {rtx_3090("y")}), fact("b")}),
      IsEmpty());
  EXPECT_THAT(said_of_devices(run, {fact("a", {rtx_3090("x")}), fact("b"), fact("b")}),
              ElementsAre(AllOf(HasSubstr("mistake: rank 1 on b: no GPU for a device of type "
                                          "rtx-3090 (the driver lists no GPU"),
                                HasSubstr("--gres"))));
  EXPECT_THAT(
      said_of_devices(run, {fact("a", {unknown_card("x")}), fact("b", {rtx_3090("y")}), fact("b")}),
      ElementsAre(HasSubstr("mistake: rank 0 computes on a card 'NVIDIA Marvel X1' for a "
                            "device of type rtx-3090")));
  EXPECT_THAT(
      said_of_devices(run, {fact("a", {rtx_3090("x")}), fact("b", {rtx_3090("x")}), fact("b")}),
      ElementsAre(HasSubstr("mistake: ranks 0 and 1 on a and b: would share one NVIDIA")));
  // An emulated kind is something else on purpose.
  EXPECT_THAT(said_of_devices(planned("rtx-3090", true), planned_hosts()), IsEmpty());
}

// CUDA shows one of them to each process, as its only device.
TEST(CheckDevices, PartsOfOneCardAreDevicesOfTheirOwn) {
  const std::string name = "NVIDIA A100-SXM4-40GB MIG 1g.5gb";
  const auto part = [&](const char* uuid) { return test::card(name, uuid, 5); };
  PlannedRun run = planned("a100-sxm4-40gb-mig-1g-5gb");
  EXPECT_THAT(
      said_of_devices(run, {fact("a", {part("MIG-1")}), fact("b", {part("MIG-2")}), fact("b")}),
      IsEmpty());
  EXPECT_THAT(
      said_of_devices(run, {fact("a", {part("MIG-1")}), fact("b", {part("MIG-1")}), fact("b")}),
      ElementsAre(HasSubstr("would share one " + name)));
  const Check check = check_devices(run, {fact("a", {part("MIG-1")}), fact("a", {part("MIG-2")})},
                                    std::nullopt, {});
  EXPECT_EQ(check.seen, "2 x " + name);
}

TEST(CheckDevices, AClusterAgainstTheCardsOfItsHosts) {
  PlannedRun run = planned("rtx-3090");
  run.has_plan = false;
  run.files = "lab.toml";
  const auto check = [&](const std::vector<DoctorFacts>& facts) {
    return said(check_devices(run, facts, std::nullopt, {}));
  };
  EXPECT_THAT(check({fact("a", {rtx_3090("x")}), fact("b", {rtx_3090("y")})}), IsEmpty());
  EXPECT_THAT(check({fact("a", {unknown_card("x")}), fact("b", {rtx_3090("y")})}),
              ElementsAre(HasSubstr("mistake: a: has 1 device of type rtx-3090 in lab.toml (its "
                                    "ranks see 1 x NVIDIA Marvel X1)")));
}

// As Slurm calls them. Without --pool no file says what its types are.
std::vector<std::string> said_of_allocated(const std::vector<std::string>& gpus,
                                           std::vector<SeenCard> seen,
                                           const std::string& device = "auto") {
  PlannedRun run;
  run.from_allocation = true;
  run.files = "Slurm job 17";
  run.job.device = device;
  run.job.cluster = plain_cluster({.of = "Slurm job 17",
                                   .gpus_known = true,
                                   .nodes = {{.name = "a", .gpus = gpus, .features = {}}}});
  return said(check_devices(run, {fact("a", std::move(seen))}, std::nullopt, {}));
}

TEST(CheckDevices, GpusThatTheSchedulerGaveAndNoRankSees) {
  for (const char* type : {"titanv", "titan-v", "TITAN_V", "TITAN V", "a100", "warp9"}) {
    EXPECT_THAT(said_of_allocated({type}, {}),
                ElementsAre(HasSubstr(std::string("mistake: a: has 1 device of type ") + type +
                                      " in Slurm job 17 (its ranks see no GPU)")));
  }
  EXPECT_THAT(said_of_allocated({""}, {}), ElementsAre(HasSubstr("has 1 device of type gpu in")));
  const SeenCard titan = test::card("NVIDIA TITAN V", "x", 12);
  const SeenCard a100 = test::card("NVIDIA A100-SXM4-80GB", "y", 80);
  for (const char* type : {"titanv", "TITAN_V", "warp9", ""}) {
    EXPECT_THAT(said_of_allocated({type}, {titan}), IsEmpty()) << type;
  }
  EXPECT_THAT(said_of_allocated({"a100", "titanv"}, {a100, titan}), IsEmpty());
  EXPECT_THAT(said_of_allocated({"a100"}, {titan}), ElementsAre(HasSubstr("of type a100")));
  EXPECT_THAT(said_of_allocated({"warp9", "warp9"}, {titan}),
              ElementsAre(HasSubstr("has 2 devices of type warp9")));
  EXPECT_THAT(said_of_allocated({"a100"}, {}, "cpu"), IsEmpty());  // on the CPU on purpose
}

TEST(CheckDevices, CudaThatWasChosenAndIsUnavailable) {
  FoundDevice none;
  none.failure = "device cuda: no driver";
  EXPECT_THAT(
      said(check_devices({}, {fact("n0"), fact("n1")}, std::nullopt, {FoundDevice{}, none})),
      ElementsAre(HasSubstr("failure: rank 1 on n1: device cuda: no driver (")));
}

// --- cores
// -----------------------------------------------------------------------------------------------

TEST(CheckCores, BoundTogether) {
  std::vector<DoctorFacts> facts{fact("n0"), fact("n0"), fact("n1")};
  for (DoctorFacts& rank : facts) {
    rank.machine.rank.online = 8;
    rank.machine.rank.cores = {4};
  }
  EXPECT_THAT(said(check_cores({}, facts, std::nullopt, {}, 1, "")),
              ElementsAre(HasSubstr("note: ranks 0 and 1 on n0: are bound to the same core 4 (")));
  facts[0].machine.rank.cores = {3};
  EXPECT_THAT(check_cores({}, facts, std::nullopt, {}, 1, "").findings, IsEmpty());
  EXPECT_EQ(check_cores({}, facts, std::nullopt, {}, 1, "").seen,
            "2 for 2 ranks on n0; 1 for 1 rank on n1");
  EXPECT_EQ(listed_cores({0, 1, 2, 5, 7, 8}), "0-2,5,7-8");
}

TEST(CheckCores, MoreThreadsThanCores) {
  const PlannedRun run = [] {
    PlannedRun three_threads = planned("rtx-3090");
    three_threads.job.threads = 3;
    return three_threads;
  }();
  const std::vector<DoctorFacts> facts = planned_hosts();  // of two cores each
  EXPECT_THAT(said(check_cores(run, facts, roles_of(run, facts), {}, 3, "hetpipe doctor")),
              testing::Contains(HasSubstr("mistake: --threads: 3, and ranks 0 and 1 on a and b")));
  EXPECT_THAT(said(check_cores({}, facts, std::nullopt, {}, 2, "")),
              ElementsAre(HasSubstr("note: b: 4 threads of its ranks share 2 cores")));
  EXPECT_THAT(check_cores(planned("x", true), facts, std::nullopt, {}, 2, "").findings, IsEmpty());
}

// Two sockets of four cores; the cards sit at the second.
std::vector<DoctorFacts> on_two_sockets(const std::vector<std::vector<int>>& cores) {
  std::vector<DoctorFacts> facts;
  for (const std::vector<int>& own : cores) {
    SeenCard card = rtx_3090("GPU-" + std::to_string(facts.size()));
    card.gpu.numa_node = 1;
    card.near_cores = {4, 5, 6, 7};
    facts.push_back(fact("n0", {card}));
    facts.back().machine.rank.online = 8;
    facts.back().machine.rank.cores = own;
  }
  return facts;
}

TEST(CheckCores, BoundFarFromTheirCards) {
  const auto far = on_two_sockets({{0, 1}, {6, 7}, {2}});
  const Check check = check_cores({}, far, std::nullopt, {}, 1, "");
  EXPECT_THAT(
      said(check),
      ElementsAre(AllOf(HasSubstr("note: rank 0 on n0: is bound to cores 0-1, far from its GPU "
                                  "(NUMA node 1, cores 4-7) (every copy"),
                        HasSubstr("--gpu-bind=closest"), HasSubstr("--map-by numa")),
                  HasSubstr("note: rank 2 on n0: is bound to cores 2, far from its GPU (")));
  EXPECT_THAT(check.seen, HasSubstr("; 1 of 3 with cores near their GPU"));
  EXPECT_THAT(said(check_cores({}, on_two_sockets({{1}, {1}}), std::nullopt, {}, 1, "")),
              ElementsAre(HasSubstr("note: ranks 0 and 1 on n0: are bound to cores 1, far from "
                                    "their GPUs (NUMA node 1"),
                          HasSubstr("are bound to the same core 1 (")));
  // Not bound, or near: nothing. Nor where Linux does not say where the card is.
  EXPECT_THAT(
      check_cores({}, on_two_sockets({{0, 1, 2, 3, 4, 5, 6, 7}, {4}}), std::nullopt, {}, 1, "")
          .findings,
      IsEmpty());
  auto unknown = on_two_sockets({{0}, {1}});
  for (DoctorFacts& rank : unknown) rank.machine.cards[0].near_cores.clear();
  EXPECT_THAT(check_cores({}, unknown, std::nullopt, {}, 1, "").findings, IsEmpty());
  EXPECT_THAT(check_cores({}, unknown, std::nullopt, {}, 1, "").seen,
              testing::Not(HasSubstr("near")));
}

// It sees two cards, and its role has the second.
TEST(CheckCores, TheCardOfTheRole) {
  SeenCard here = rtx_3090("GPU-here");
  here.near_cores = {0, 1};
  SeenCard there = rtx_3090("GPU-there", 1);
  there.near_cores = {2, 3};
  const std::vector<DoctorFacts> facts{fact("a", {here, there})};  // on cores 0 and 1
  EXPECT_EQ(card_of_rank(facts, {}, 0), nullptr);
  FoundDevice device;
  device.device.uuid = "GPU-there";
  ASSERT_NE(card_of_rank(facts, {device}, 0), nullptr);
  EXPECT_EQ(card_of_rank(facts, {device}, 0)->near_cores, there.near_cores);
  device.device.uuid.clear();  // it computes on the CPU
  EXPECT_EQ(card_of_rank(facts, {device}, 0), nullptr);
}

}  // namespace place_checks_test
}  // namespace hetpipe
