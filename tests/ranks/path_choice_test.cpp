// SPDX-License-Identifier: Apache-2.0
#include "runtime/transport/path_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace hetpipe {
namespace path_choice_test {

using testing::HasSubstr;

// A process of its own on a card of its own.
PathEnd gpu(const char* machine, int process, const char* uuid) {
  return {.machine = machine,
          .process = process,
          .device = "cuda",
          .uuid = uuid,
          .host_memory = false,
          .nccl = true,
          .why_no_nccl = "",
          .mpi_reaches_gpus = false};
}

PathEnd without_nccl(PathEnd end) {
  end.nccl = false;
  end.why_no_nccl = "libnccl.so.2: cannot open shared object file";
  return end;
}

PathEnd with_mpi(PathEnd end) {
  end.mpi_reaches_gpus = true;
  return end;
}

TEST(PathChoice, TwoCardsOfOneNode) {
  const PathEnd a = gpu("n0", 10, "GPU-a"), b = gpu("n0", 11, "GPU-b");
  EXPECT_EQ(choose_path(a, b, {}).kind, PathKind::nccl);
  EXPECT_EQ(choose_path(a, b, PathKind::ipc).kind, PathKind::ipc);
  EXPECT_EQ(choose_path(a, without_nccl(b), {}).kind, PathKind::ipc);
  EXPECT_EQ(choose_path(a, b, PathKind::staged).kind, PathKind::staged);
  EXPECT_EQ(choose_path(a, b, PathKind::staged).why, "requested");
}

TEST(PathChoice, OneCardForTwoRanks) {
  const PathEnd a = gpu("n0", 10, "GPU-a"), b = gpu("n0", 11, "GPU-a");
  EXPECT_EQ(choose_path(a, b, {}).kind, PathKind::ipc);
  const PathChoice forced = choose_path(a, b, PathKind::nccl);
  EXPECT_EQ(forced.kind, PathKind::staged);
  EXPECT_EQ(forced.why, "nccl: one card for both, GPU-a");
}

TEST(PathChoice, TwoNodes) {
  const PathEnd a = gpu("n0", 10, "GPU-a"), b = gpu("n1", 10, "GPU-b");
  EXPECT_EQ(choose_path(a, b, {}).kind, PathKind::nccl);
  EXPECT_EQ(choose_path(a, b, PathKind::ipc).why, "ipc: two machines");
  const PathChoice none = choose_path(without_nccl(a), b, {});
  EXPECT_EQ(none.kind, PathKind::staged);
  EXPECT_THAT(none.why, HasSubstr("nccl: libnccl.so.2: cannot open"));
  EXPECT_THAT(none.why, HasSubstr("ipc: two machines"));
  EXPECT_THAT(none.why, HasSubstr("mpi: the library is not CUDA-aware"));
  EXPECT_EQ(choose_path(without_nccl(with_mpi(a)), with_mpi(b), {}).kind, PathKind::mpi);
  EXPECT_EQ(choose_path(without_nccl(with_mpi(a)), b, {}).kind, PathKind::staged);
}

TEST(PathChoice, RanksThatAreThreads) {
  const PathEnd a = gpu("n0", 10, "GPU-a"), b = gpu("n0", 10, "GPU-b");
  EXPECT_EQ(choose_path(a, b, {}).kind, PathKind::nccl);
  EXPECT_EQ(choose_path(without_nccl(a), b, {}).kind, PathKind::staged);
  EXPECT_THAT(choose_path(a, b, PathKind::ipc).why, HasSubstr("threads of one process"));
  const PathEnd offload{.machine = "n0",
                        .process = 10,
                        .device = "offload",
                        .uuid = "",
                        .host_memory = false,
                        .why_no_nccl = ""};
  EXPECT_EQ(choose_path(offload, offload, {}).kind, PathKind::ipc);
}

// NCCL knows a card by its slot, and CUDA opens no memory of another instance.
TEST(PathChoice, PartsOfACard) {
  const PathEnd one = gpu("n0", 10, "MIG-a");
  const PathEnd two = gpu("n0", 11, "MIG-b");
  EXPECT_EQ(choose_path(one, two, {}).kind, PathKind::staged);
  EXPECT_THAT(choose_path(one, two, {}).why, HasSubstr("MIG"));
  EXPECT_EQ(choose_path(one, gpu("n1", 11, "GPU-b"), {}).kind, PathKind::staged);
  EXPECT_EQ(choose_path(one, gpu("n0", 12, "MIG-a"), {}).kind, PathKind::ipc);  // two on one part
  EXPECT_EQ(choose_path(with_mpi(one), with_mpi(two), {}).kind, PathKind::mpi);
}

TEST(PathChoice, ARankOnTheCpu) {
  const PathEnd cpu{.machine = "n0", .process = 12, .uuid = "", .why_no_nccl = ""};
  const PathEnd card = gpu("n0", 10, "GPU-a");
  for (const std::optional<PathKind> wanted :
       {std::optional<PathKind>(), std::optional(PathKind::ipc), std::optional(PathKind::nccl)}) {
    EXPECT_EQ(choose_path(card, cpu, wanted).kind, PathKind::staged);
    EXPECT_EQ(choose_path(cpu, card, wanted).kind, PathKind::staged);
    EXPECT_THAT(choose_path(cpu, card, wanted).why, HasSubstr("uses host memory"));
  }
  PathEnd offload = card;
  offload.device = "offload";
  EXPECT_THAT(choose_path(offload, card, {}).why, HasSubstr("two types, offload and cuda"));
}

TEST(PathChoice, IsTheSameSeenFromBothEnds) {
  const PathEnd ends[] = {gpu("n0", 10, "GPU-a"), without_nccl(gpu("n0", 11, "GPU-b")),
                          with_mpi(gpu("n1", 10, "GPU-c")), gpu("n0", 12, "GPU-a"),
                          PathEnd{.machine = "n0", .process = 9, .uuid = "", .why_no_nccl = ""}};
  for (const PathEnd& a : ends) {
    for (const PathEnd& b : ends) {
      for (const char* name : {"auto", "staged", "ipc", "nccl", "mpi"}) {
        EXPECT_EQ(choose_path(a, b, path_named(name)).kind,
                  choose_path(b, a, path_named(name)).kind);
      }
    }
  }
}

TEST(PathChoice, KnowsItsNames) {
  EXPECT_EQ(path_named("auto"), std::nullopt);
  EXPECT_EQ(path_named("nccl"), PathKind::nccl);
  EXPECT_THROW(path_named("ncl"), UserError);
}

}  // namespace path_choice_test
}  // namespace hetpipe
