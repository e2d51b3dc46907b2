// SPDX-License-Identifier: Apache-2.0
#include "partitioner/cluster/catalogue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "../cases.h"
#include "base/text.h"

namespace hetpipe {
namespace catalogue_test {

using testing::HasSubstr;
using testing::Not;

TEST(Catalogue, HoldsWhatPeopleHave) {
  EXPECT_GE(catalogue().size(), 25u);
  for (const char* name :
       {"gtx-1080",      "gtx-1080-ti",  "p4000",          "p100",     "rtx-2060", "rtx-2080",
        "rtx-2080-ti",   "titan-v",      "titan-rtx",      "t4",       "v100",     "v100-pcie-16gb",
        "v100-sxm-32gb", "rtx-3060",     "rtx-3080",       "rtx-3090", "a10",      "a30",
        "a40",           "a100",         "a100-pcie-80gb", "a6000",    "l4",       "l40s",
        "rtx-4090",      "rtx-6000-ada", "h100-pcie",      "h100-sxm", "h200",     "gh200",
        "b200",          "rtx-5090"}) {
    EXPECT_NE(find_in_catalogue(name), nullptr) << name;
  }
  EXPECT_EQ(find_in_catalogue("RTX_3090"), find_in_catalogue("rtx-3090"));
  EXPECT_EQ(find_in_catalogue("rtx"), nullptr);
  EXPECT_EQ(find_in_catalogue(""), nullptr);
}

TEST(Catalogue, NamesAndAliasesAreUnique) {
  std::set<std::string> names;
  for (const CatalogueEntry& entry : catalogue()) {
    EXPECT_TRUE(names.insert(std::string(entry.name)).second) << entry.name;
    if (entry.aliases.empty()) continue;
    for (const std::string& alias : split(entry.aliases, ' ')) {
      EXPECT_TRUE(names.insert(alias).second) << alias;
    }
  }
}

// Mistyped columns would break one of these: rates that grow from fp32 to fp16, tf32 only since
// Ampere, machine balance (flops per byte) within what was ever built.
TEST(Catalogue, NumbersArePlausible) {
  int year = 0;
  for (const CatalogueEntry& entry : catalogue()) {
    SCOPED_TRACE(entry.name);
    EXPECT_GE(entry.gigabytes, 6);
    EXPECT_LE(entry.gigabytes, 192);
    EXPECT_EQ(entry.tf32_tflops > 0, entry.compute_capability >= 8);
    EXPECT_EQ(entry.fp16_tflops > 0, entry.compute_capability != 6.1);
    if (entry.tf32_tflops > 0) {
      EXPECT_GE(entry.tf32_tflops, entry.fp32_tflops);
    }
    if (entry.fp16_tflops > 0) {
      EXPECT_GE(entry.fp16_tflops, 1.9 * entry.fp32_tflops);
    }
    const double balance = 1e3 * entry.fp32_tflops / entry.gigabytes_per_second;
    EXPECT_GT(balance, 8);
    EXPECT_LT(balance, 120);
    EXPECT_FALSE(entry.source.empty());
    // Sorted by generation: compute capability grows, or the year does within it.
    EXPECT_GE(entry.year, year - 3);
    year = std::max(year, entry.year);
  }
}

// Vendors state cores x 2 x clock; the table rounds to three digits. Cores and boost clock (GHz).
TEST(Catalogue, Fp32PeaksAreCoresTimesClock) {
  struct Chip {
    const char* name;
    double cores;
    double clock;
  };
  for (const Chip& chip : std::initializer_list<Chip>{{"gtx-1080", 2560, 1.733},
                                                      {"gtx-1080-ti", 3584, 1.582},
                                                      {"quadro-p4000", 1792, 1.480},
                                                      {"p100-sxm-16gb", 3584, 1.480},
                                                      {"titan-v", 5120, 1.455},
                                                      {"v100-sxm-16gb", 5120, 1.530},
                                                      {"v100-pcie-16gb", 5120, 1.380},
                                                      {"rtx-2060", 1920, 1.680},
                                                      {"rtx-2080", 2944, 1.710},
                                                      {"rtx-2080-ti", 4352, 1.545},
                                                      {"titan-rtx", 4608, 1.770},
                                                      {"t4", 2560, 1.590},
                                                      {"a100-sxm-40gb", 6912, 1.410},
                                                      {"rtx-3060", 3584, 1.777},
                                                      {"rtx-3080", 8704, 1.710},
                                                      {"rtx-3090", 10496, 1.695},
                                                      {"rtx-a6000", 10752, 1.800},
                                                      {"a40", 10752, 1.740},
                                                      {"a10", 9216, 1.695},
                                                      {"rtx-4090", 16384, 2.520},
                                                      {"l4", 7424, 2.040},
                                                      {"l40s", 18176, 2.520},
                                                      {"h100-sxm-80gb", 16896, 1.980},
                                                      {"h100-pcie-80gb", 14592, 1.755},
                                                      {"rtx-5090", 21760, 2.407}}) {
    const CatalogueEntry* entry = find_in_catalogue(chip.name);
    ASSERT_NE(entry, nullptr) << chip.name;
    EXPECT_NEAR(entry->fp32_tflops, chip.cores * 2 * chip.clock / 1e3, 0.02 * entry->fp32_tflops)
        << chip.name;
  }
}

TEST(Catalogue, FilesMayLeaveOutWhatItKnows) {
  const std::string rest =
      "[[node]]\nname = \"n0\"\ndevices = [\"titan-v\", \"v100\", \"mine\"]\n"
      "[link.intra_node]\nbandwidth = 1e9\n";
  const Cluster c = parse_cluster(
      "format = 1\n[device.titan-v]\nmemory = 11_000_000_000\n[device.mine]\nmemory = 5\n" + rest,
      "c.toml");
  ASSERT_EQ(c.kinds.size(), 3u);
  EXPECT_EQ(c.kinds[0].memory, 11'000'000'000);  // the file goes before the catalogue
  EXPECT_EQ(c.kinds[0].peak_flops, 14.9e12);
  EXPECT_EQ(c.kinds[0].memory_bandwidth, 653e9);
  EXPECT_EQ(c.kinds[2].name, "v100");  // no section at all
  EXPECT_EQ(c.kinds[2].memory, 16'000'000'000);
  EXPECT_EQ(c.kinds[2].peak_flops_fp16, 125e12);
  EXPECT_EQ(c.kinds[1].peak_flops, 0);
  EXPECT_EQ(parse_cluster(to_toml(c), "again"), c);
}

TEST(Catalogue, UnknownNamesGetTheNearest) {
  const auto with = [](const std::string& section, const std::string& device) {
    return test::user_error([&] {
      parse_cluster("format = 1\n" + section + "[[node]]\nname = \"n0\"\ndevices = [\"" + device +
                        "\"]\n[link.intra_node]\nbandwidth = 1e9\n",
                    "c.toml");
    });
  };
  EXPECT_THAT(with("", "rtx-3091"),
              HasSubstr("c.toml:4: unknown device type 'rtx-3091' (did you mean 'rtx-3090'?)"));
  EXPECT_THAT(
      with("[device.titan-w]\n", "titan-w"),
      HasSubstr("c.toml:2: [device.titan-w]: memory is missing (required for a type that is "
                "not in the catalogue of GPUs; did you mean 'titan-v'?)"));
  EXPECT_THAT(with("", "abacus"), Not(HasSubstr("did you mean")));
}

}  // namespace catalogue_test
}  // namespace hetpipe
