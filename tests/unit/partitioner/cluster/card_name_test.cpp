// SPDX-License-Identifier: Apache-2.0
#include "partitioner/cluster/card_name.h"

#include <gtest/gtest.h>

namespace hetpipe {
namespace card_name_test {

// As drivers write them.
TEST(CardName, IsFoundInTheCatalogue) {
  const std::pair<const char*, const char*> kCards[] = {
      {"NVIDIA GeForce RTX 3090", "rtx-3090"},
      {"GeForce RTX 2080 Ti", "rtx-2080-ti"},
      {"NVIDIA GeForce GTX 1060 6GB", "gtx-1060"},
      {"NVIDIA TITAN V", "titan-v"},
      {"TITAN RTX", "titan-rtx"},
      {"Quadro P4000", "quadro-p4000"},
      {"Quadro RTX 6000", "quadro-rtx-6000"},
      {"NVIDIA RTX A6000", "rtx-a6000"},
      {"NVIDIA RTX 6000 Ada Generation", "rtx-6000-ada"},
      {"Tesla T4", "t4"},
      {"Tesla P100-PCIE-16GB", "p100-pcie-16gb"},
      {"Tesla P100-SXM2-16GB", "p100-sxm-16gb"},
      {"Tesla V100-SXM2-32GB", "v100-sxm-32gb"},
      {"Tesla V100-PCIE-16GB", "v100-pcie-16gb"},
      {"NVIDIA A100-SXM4-80GB", "a100-sxm-80gb"},
      {"NVIDIA A100-SXM4-40GB", "a100-sxm-40gb"},
      {"NVIDIA A100-PCIE-40GB", "a100-pcie-40gb"},
      {"NVIDIA A100 80GB PCIe", "a100-pcie-80gb"},
      {"NVIDIA H100 80GB HBM3", "h100-sxm-80gb"},
      {"NVIDIA H100 PCIe", "h100-pcie-80gb"},
      {"NVIDIA H100 NVL", "h100-nvl-94gb"},
      {"NVIDIA H200", "h200-sxm-141gb"},
      {"NVIDIA GH200 480GB", "gh200-96gb"},
      {"NVIDIA B200", "b200-180gb"},
      {"NVIDIA L40S", "l40s"},
  };
  for (const auto& [driver, kind] : kCards) {
    const CatalogueEntry* entry = find_card(driver);
    ASSERT_NE(entry, nullptr) << driver;
    EXPECT_EQ(entry->name, kind) << driver;
    EXPECT_EQ(kind_of_card(driver), kind);
  }
}

TEST(CardName, ASlowerCardOfTheNameIsNotTheCard) {
  const std::pair<const char*, const char*> kCards[] = {
      {"NVIDIA GeForce RTX 3060 Laptop GPU", "geforce-rtx-3060-laptop-gpu"},
      {"NVIDIA GeForce GTX 1060 3GB", "geforce-gtx-1060-3gb"},
      {"NVIDIA H100 80GB HBM3 MIG 1g.10gb", "h100-80gb-hbm3-mig-1g-10gb"},
      {"NVIDIA H200 NVL", "h200-nvl"},
      {"NVIDIA A10G", "a10g"},
      {"Tesla V100S-PCIE-32GB", "tesla-v100s-pcie-32gb"},
      {"NVIDIA TITAN X (Pascal)", "titan-x-pascal"},
      {"Graphics Device", "graphics-device"},
      {"", "gpu"},
      {"NVIDIA", "nvidia"},
  };
  for (const auto& [driver, kind] : kCards) {
    EXPECT_EQ(find_card(driver), nullptr) << driver;
    EXPECT_EQ(kind_of_card(driver), kind);
  }
}

TEST(CardName, EveryRowIsFoundByItsOwnName) {
  for (const CatalogueEntry& entry : catalogue()) {
    EXPECT_EQ(find_card(entry.name), &entry) << entry.name;
  }
}

}  // namespace card_name_test
}  // namespace hetpipe
