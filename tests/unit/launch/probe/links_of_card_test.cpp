// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "launch/probe/near_cores.h"
#include "launch/probe/nvml.h"
#include "launch/probe/pcie.h"

namespace hetpipe {
namespace links_of_card_test {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(Nvml, NvLinksByPeer) {
  const Nvml nvml(HETPIPE_NVML_DOUBLE);
  EXPECT_THAT(nvml.nv_links("GPU-left"), ElementsAre(NvLinks{"0000:af:00.0", 2, 25.781e9}));
  EXPECT_THAT(nvml.nv_links("GPU-right"), ElementsAre(NvLinks{"0000:3b:00.0", 2, 25.781e9}));
  EXPECT_THAT(nvml.nv_links("GPU-switched"), ElementsAre(NvLinks{"", 18, 0}));
  EXPECT_THAT(nvml.nv_links("GPU-plain"), IsEmpty());
  EXPECT_THAT(nvml.nv_links("GPU-of-another-machine"), IsEmpty());
}

TEST(Nvml, PcieOfCardAndSlot) {
  const Nvml nvml(HETPIPE_NVML_DOUBLE);
  EXPECT_EQ(nvml.pcie_link("GPU-left"), (PcieLink{3, 16}));
  EXPECT_EQ(nvml.pcie_link("GPU-plain"), std::nullopt);
  EXPECT_EQ(nvml.pcie_link("GPU-of-another-machine"), std::nullopt);
}

TEST(Nvml, FreeMemory) {
  const Nvml nvml(HETPIPE_NVML_DOUBLE);
  EXPECT_EQ(nvml.free_memory("GPU-left"), 15'000'000'000u);
  EXPECT_EQ(nvml.free_memory("GPU-plain"), std::nullopt);
  GpuInfo gpu;
  gpu.uuid = "GPU-left";
  gpu.memory = 16'000'000'000;
  EXPECT_EQ(free_memory_of(gpu, &nvml), 15'000'000'000u);
  EXPECT_EQ(free_memory_of(gpu, nullptr), 16'000'000'000u);
  gpu.uuid = "GPU-of-another-machine";
  EXPECT_EQ(free_memory_of(gpu, &nvml), 16'000'000'000u);
}

TEST(Nvml, IsEndedOnceForEachStart) {
  void* const library = dlopen(HETPIPE_NVML_DOUBLE, RTLD_LAZY);
  ASSERT_NE(library, nullptr) << dlerror();
  const auto users = reinterpret_cast<int (*)()>(dlsym(library, "nvml_double_users"));
  {
    const Nvml nvml(HETPIPE_NVML_DOUBLE);
    EXPECT_EQ(users(), 1);
  }
  EXPECT_EQ(users(), 0);
  dlclose(library);
}

TEST(Nvml, SaysWhyItIsNotThere) {
  const auto why = [](const char* library) -> std::string {
    try {
      const Nvml nvml(library);
    } catch (const SystemError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(why("libno-such-thing.so.1"), HasSubstr("NVML: libno-such-thing.so.1"));
  EXPECT_THAT(why("libc.so.6"), HasSubstr("NVML: libc.so.6 is too old"));
}

// Folders as Linux has them: a card's below that of the port it sits in.
class Pcie : public testing::Test {
 protected:
  Pcie() : root_(fs::path(testing::TempDir()) / "pcie") {
    fs::remove_all(root_);
    fs::create_directories(card());
    fs::create_directory_symlink(card(), root_ / "link");
  }
  ~Pcie() override { fs::remove_all(root_); }

  fs::path port() const { return root_ / "0000:3a:00.0"; }
  fs::path card() const { return port() / "0000:3b:00.0"; }
  static void write(const fs::path& folder, const char* speed, const char* lanes) {
    std::ofstream(folder / "max_link_speed") << speed << '\n';
    std::ofstream(folder / "max_link_width") << lanes << '\n';
  }

  fs::path root_;
};

TEST_F(Pcie, TheLesserOfCardAndPort) {
  write(card(), "32.0 GT/s PCIe", "16");
  EXPECT_EQ(to_string(pcie_link_of(root_ / "link").value()), "5.0 x16");
  write(port(), "16.0 GT/s PCIe", "8");
  EXPECT_EQ(to_string(pcie_link_of(root_ / "link").value()), "4.0 x8");
  write(card(), "2.5 GT/s PCIe", "4");
  EXPECT_EQ(to_string(pcie_link_of(card()).value()), "1.0 x4");
}

TEST_F(Pcie, NothingWhereLinuxDoesNotSay) {
  EXPECT_EQ(pcie_link_of(root_ / "0000:99:00.0"), std::nullopt);
  EXPECT_EQ(pcie_link_of(card()), std::nullopt);
  write(card(), "Unknown", "255");
  EXPECT_EQ(pcie_link_of(card()), std::nullopt);
}

TEST(NearCores, OfTheNodesThatLinuxLists) {
  const fs::path nodes = fs::path(::testing::TempDir()) / "hetpipe-near-cores";
  fs::remove_all(nodes);
  const auto put = [&](const char* file, const char* text) {
    fs::create_directories((nodes / file).parent_path());
    std::ofstream(nodes / file) << text << "\n";
  };
  EXPECT_THAT(near_cores(0, nodes), IsEmpty());  // a kernel without NUMA
  put("online", "0-1");
  put("node0/cpulist", "0-2,8-9");
  put("node1/cpulist", "3,10");
  EXPECT_THAT(near_cores(0, nodes), ElementsAre(0, 1, 2, 8, 9));
  EXPECT_THAT(near_cores(1, nodes), ElementsAre(3, 10));
  EXPECT_THAT(near_cores(2, nodes), IsEmpty());
  EXPECT_THAT(near_cores(-1, nodes), IsEmpty());  // as Linux says of a card in a virtual machine
  put("online", "0");
  EXPECT_THAT(near_cores(0, nodes), IsEmpty());  // nothing is far
  fs::remove_all(nodes);
  for (const char* bad : {"", "x", "1-", "-1", "0-99999999", "3-x"}) {
    EXPECT_THAT(cores_of_list(bad), IsEmpty()) << bad;
  }
}

}  // namespace links_of_card_test
}  // namespace hetpipe
