// SPDX-License-Identifier: Apache-2.0
#include "runtime/training/rank_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "partitioner/cluster/card_name.h"
#include "tests/unit/base/travels.h"

namespace hetpipe {
namespace rank_device_test {

GpuInfo gpu(int index, const char* name, int major, int minor) {
  GpuInfo info;
  info.index = index;
  info.name = name;
  info.uuid = std::string("GPU-") + name;
  info.major = major;
  info.minor = minor;
  info.memory = 24'000'000'000;
  return info;
}

// A rank on n0:1, in a pool that may be emulated.
class DecideDevice : public testing::Test {
 protected:
  DecideDevice() {
    worker_.device = {"n0", 1};
    seen_.gpus = {gpu(0, "A", 8, 0), gpu(1, "B", 7, 5), gpu(2, "C", 6, 1)};
  }
  RankDevice decide(GpuPlace place = {.in_node = 1}) const {
    return decide_device(job_, worker_, place, seen_);
  }
  void emulate(const std::string& of) {
    Cluster cluster;
    cluster.kinds = {{.name = "slow", .memory = 1, .emulate = Emulation{2, of}}};
    cluster.nodes = {{.name = "n0", .kinds = {0, 0}}};
    job_.cluster = cluster;
  }

  TrainJob job_;
  Role::Worker worker_;
  VisibleGpus seen_;
};

TEST_F(DecideDevice, TheCpuWhereItIsAskedFor) {
  const RankDevice device = decide();
  EXPECT_EQ(device.name, "cpu");
  EXPECT_EQ(device.why, "");
  EXPECT_EQ(device.precision, Precision::fp32);
}

TEST_F(DecideDevice, AutoTakesTheGpuOfItsPlace) {
  job_.device = "auto";
  const RankDevice device = decide();
  EXPECT_EQ(device.name, "cuda");
  EXPECT_EQ(device.gpu, 1);
  EXPECT_EQ(device.uuid, "GPU-B");
  EXPECT_EQ(device.text, "B, fp32");
  EXPECT_EQ(device.card, "B");
  EXPECT_EQ(decide({.in_node = 3}).gpu, 0);  // counted round
  seen_.gpus.resize(1);                      // each rank sees its own alone, as under Slurm
  EXPECT_EQ(decide().gpu, 0);
}

TEST_F(DecideDevice, PrecisionIsThePlans) {
  job_.device = "cuda";
  EXPECT_EQ(decide({.in_node = 0}).precision, Precision::fp32);
  job_.plan.precision = precision_choice_from("auto");
  EXPECT_EQ(decide({.in_node = 0}).precision, Precision::bf16);
  EXPECT_EQ(decide({.in_node = 1}).precision, Precision::fp16);
  EXPECT_EQ(decide({.in_node = 2}).precision, Precision::fp32);
  job_.plan.precision = Precision::tf32;
  EXPECT_EQ(decide({.in_node = 0}).precision, Precision::tf32);
}

TEST_F(DecideDevice, PrecisionOfItsKind) {
  job_.device = "cuda";
  job_.plan.precision = precision_choice_from("auto,slow=tf32");
  EXPECT_EQ(decide({.in_node = 0}).precision, Precision::bf16);  // of no kind
  emulate("h200");
  EXPECT_EQ(decide().precision, Precision::tf32);
  job_.plan.precision = precision_choice_from("fp16,fast=tf32");
  EXPECT_EQ(decide().precision, Precision::fp16);
  job_.device = "offload";
  job_.plan.precision = precision_choice_from("slow=bf16");
  EXPECT_EQ(decide().precision, Precision::bf16);
}

TEST_F(DecideDevice, WithoutAGpuAutoSaysWhyAndCudaFails) {
  seen_ = {{}, "no driver"};
  job_.device = "auto";
  EXPECT_EQ(decide().name, "cpu");
  EXPECT_EQ(decide().why, "no driver");
  job_.device = "cuda";
  try {
    decide();
    FAIL();
  } catch (const SystemError& error) {
    EXPECT_STREQ(error.what(), "device cuda: no driver");
  }
}

TEST_F(DecideDevice, KindsEmulatedAtTheCpusPaceStayThere) {
  job_.device = "auto";
  emulate(kEmulatingDevice);
  EXPECT_EQ(decide().name, "cpu");
  EXPECT_EQ(decide().why, "");
  emulate("h200");  // several ranks share the cards of one machine
  EXPECT_EQ(decide({.in_node = 1, .on_host = 5}).gpu, 2);
}

TEST(RankDevice, TravelsAsItIs) {
  RankDevice device = test::filled<RankDevice>();
  device.precision = Precision::bf16;
  test::expect_all_travels(device);
}

TEST(LeftToTheCpu, NamesRanksByReason) {
  std::vector<RankDevice> devices(3);
  EXPECT_EQ(left_to_the_cpu(devices), "");
  devices[0].why = devices[2].why = "no driver";
  EXPECT_EQ(left_to_the_cpu(devices), "device auto: ranks 0, 2 on the CPU (no driver)");
}

// Devices n0:0 and n0:1 of one kind, and a parameter server, on invented cards.
class CardsOfOtherKinds : public testing::Test {
 protected:
  std::string warning(const std::string& kind, const char* card, std::int64_t memory) {
    Cluster cluster;
    cluster.kinds = {{.name = kind, .memory = 24'000'000'000, .emulate = emulate_}};
    cluster.nodes = {{.name = "n0", .kinds = {0, 0}}};
    job_.cluster = cluster;
    Roles roles;
    roles.of_rank.resize(3);
    std::vector<RankDevice> devices(3);
    for (int r = 0; r < 2; ++r) {
      const auto rank = static_cast<std::size_t>(r);
      Role::Worker worker;
      worker.device = {"n0", r};
      roles.of_rank[rank].worker = worker;
      devices[rank].card = card;
      devices[rank].memory = memory;
    }
    return cards_of_other_kinds(job_, roles, devices);
  }

  TrainJob job_;
  std::optional<Emulation> emulate_;
};

TEST_F(CardsOfOtherKinds, NamesRanksKindAndCard) {
  EXPECT_EQ(warning("rtx-3090", "NVIDIA H200", 141'000'000'000),
            "ranks 0, 1 compute on a card 'NVIDIA H200' for a device of type rtx-3090 (the plan "
            "has that type's times and memory). Name type " +
                kind_of_card("NVIDIA H200") +
                " in the cluster file and plan again, or give the ranks other cards.");
  EXPECT_EQ(warning("rtx-3090", "NVIDIA GeForce RTX 3090", 25'000'000'000), "");
}

TEST_F(CardsOfOtherKinds, NamesOfOnesOwnAndEmulatedKindsMeanNoCard) {
  EXPECT_EQ(warning("card", "NVIDIA H200", 141'000'000'000), "");
  emulate_ = Emulation{2, "h200"};
  EXPECT_EQ(warning("rtx-3090", "NVIDIA H200", 141'000'000'000), "");
}

TEST_F(CardsOfOtherKinds, ACardWithoutARowIsAnotherWhereItsMemoryIs) {
  EXPECT_EQ(warning("rtx-3090", "NVIDIA Unheard-of", 24'000'000'000), "");
  EXPECT_THAT(warning("rtx-3090", "NVIDIA GeForce RTX 3090 MIG 1g.5gb", 5'000'000'000),
              testing::HasSubstr("'NVIDIA GeForce RTX 3090 MIG 1g.5gb'"));
}

TEST_F(CardsOfOtherKinds, WithoutAClusterOrGpusNothingIsSaid) {
  EXPECT_EQ(warning("rtx-3090", "", 0), "");
  job_.cluster.reset();
  EXPECT_EQ(cards_of_other_kinds(job_, Roles{}, {}), "");
}

}  // namespace rank_device_test
}  // namespace hetpipe
