// SPDX-License-Identifier: Apache-2.0
#include "partitioner/cluster/catalogue.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/text.h"
#include "partitioner/cluster/device_type.h"

namespace hetpipe {
namespace {

// A short name ("v100", "a100") means the variant with the least memory, of those on SXM where
// there is one: a plan for it fits on the others as well.
constexpr auto kTwice = Checked::twice;
constexpr auto kOnce = Checked::once;
constexpr std::string_view kTuringPaper =
    "NVIDIA Turing GPU Architecture whitepaper, reference clocks";
constexpr std::string_view kAmperePaper = "NVIDIA Ampere GA102 GPU Architecture whitepaper";
constexpr std::string_view kAdaPaper = "NVIDIA Ada GPU Architecture whitepaper";
constexpr std::string_view kBlackwellPaper = "NVIDIA RTX Blackwell GPU Architecture whitepaper";

// clang-format off
//   name              aliases                    year architecture    cc    GB   fp32   tf32   fp16   GB/s  source, checked
constexpr CatalogueEntry kTable[] = {
    {"gtx-1060",       "",                        2016, "Pascal",      6.1,   6,  4.4,    0,     0,     192, "GeForce GTX 1060 6 GB product page", kOnce},
    {"gtx-1070",       "",                        2016, "Pascal",      6.1,   8,  6.5,    0,     0,     256, "GeForce GTX 1070 product page", kOnce},
    {"gtx-1080",       "",                        2016, "Pascal",      6.1,   8,  8.9,    0,     0,     320, "NVIDIA GeForce GTX 1080 whitepaper", kTwice},
    {"gtx-1080-ti",    "gtx-1080ti 1080ti",       2017, "Pascal",      6.1,  11, 11.3,    0,     0,     484, "GeForce GTX 1080 Ti product page", kTwice},
    {"titan-xp",       "",                        2017, "Pascal",      6.1,  12, 12.1,    0,     0,     547, "TITAN Xp product page", kOnce},
    {"quadro-p4000",   "p4000",                   2017, "Pascal",      6.1,   8,  5.3,    0,     0,     243, "Quadro P4000 data sheet", kTwice},
    {"p40",            "tesla-p40",               2016, "Pascal",      6.1,  24, 11.8,    0,     0,     346, "Tesla P40 data sheet", kTwice},
    {"p100-pcie-16gb", "tesla-p100-pcie",         2016, "Pascal",      6.0,  16,  9.3,    0,    18.7,   732, "Tesla P100 PCIe data sheet", kTwice},
    {"p100-sxm-16gb",  "p100 tesla-p100",         2016, "Pascal",      6.0,  16, 10.6,    0,    21.2,   732, "NVIDIA Tesla P100 whitepaper", kTwice},
    {"titan-v",        "",                        2017, "Volta",       7.0,  12, 14.9,    0,   110,     653, "TITAN V product page", kTwice},
    {"v100-pcie-16gb", "v100-pcie",               2017, "Volta",       7.0,  16, 14.0,    0,   112,     900, "NVIDIA V100 data sheet", kTwice},
    {"v100-pcie-32gb", "",                        2018, "Volta",       7.0,  32, 14.0,    0,   112,     900, "NVIDIA V100 data sheet", kTwice},
    {"v100-sxm-16gb",  "v100 v100-sxm v100-16gb v100-sxm2-16gb", 2017, "Volta", 7.0, 16, 15.7, 0, 125,  900, "NVIDIA V100 data sheet", kTwice},
    {"v100-sxm-32gb",  "v100-32gb v100-sxm2-32gb", 2018, "Volta",      7.0,  32, 15.7,    0,   125,     900, "NVIDIA V100 data sheet", kTwice},
    {"rtx-2060",       "",                        2019, "Turing",      7.5,   6,  6.5,    0,    25.8,   336, kTuringPaper, kTwice},
    {"rtx-2070",       "",                        2018, "Turing",      7.5,   8,  7.5,    0,    29.9,   448, kTuringPaper, kTwice},
    {"rtx-2080",       "",                        2018, "Turing",      7.5,   8, 10.1,    0,    40.3,   448, kTuringPaper, kTwice},
    {"rtx-2080-ti",    "rtx-2080ti 2080ti",       2018, "Turing",      7.5,  11, 13.4,    0,    53.8,   616, kTuringPaper, kTwice},
    {"titan-rtx",      "",                        2018, "Turing",      7.5,  24, 16.3,    0,   130.5,   672, "TITAN RTX product page", kTwice},
    {"quadro-rtx-6000", "",                       2018, "Turing",      7.5,  24, 16.3,    0,   130.5,   672, "Quadro RTX 6000 data sheet (the passive card is slower)", kOnce},
    {"t4",             "tesla-t4",                2018, "Turing",      7.5,  16,  8.1,    0,    65,     320, "NVIDIA T4 data sheet", kTwice},
    {"a100-pcie-40gb", "a100-pcie",               2020, "Ampere",      8.0,  40, 19.5,  156,   312,    1555, "NVIDIA A100 data sheet", kTwice},
    {"a100-sxm-40gb",  "a100 a100-sxm a100-40gb a100-sxm4-40gb", 2020, "Ampere", 8.0, 40, 19.5, 156, 312, 1555, "NVIDIA A100 data sheet", kTwice},
    {"a100-pcie-80gb", "",                        2021, "Ampere",      8.0,  80, 19.5,  156,   312,    1935, "NVIDIA A100 data sheet", kTwice},
    {"a100-sxm-80gb",  "a100-80gb a100-sxm4-80gb", 2020, "Ampere",     8.0,  80, 19.5,  156,   312,    2039, "NVIDIA A100 data sheet", kTwice},
    {"a30",            "",                        2021, "Ampere",      8.0,  24, 10.3,   82,   165,     933, "NVIDIA A30 data sheet", kTwice},
    {"rtx-3060",       "",                        2021, "Ampere",      8.6,  12, 12.7,   12.7,  25.5,   360, "GeForce RTX 3060 product page; tensor rates from cores and clock", kOnce},
    {"rtx-3070",       "",                        2020, "Ampere",      8.6,   8, 20.3,   20.3,  40.6,   448, kAmperePaper, kTwice},
    {"rtx-3080",       "",                        2020, "Ampere",      8.6,  10, 29.8,   29.8,  59.5,   760, kAmperePaper, kTwice},
    {"rtx-3090",       "",                        2020, "Ampere",      8.6,  24, 35.6,   35.6,  71,     936, kAmperePaper, kTwice},
    {"rtx-a4000",      "a4000",                   2021, "Ampere",      8.6,  16, 19.2,   38.3,  76.7,   448, "NVIDIA RTX A4000 data sheet", kTwice},
    {"rtx-a5000",      "a5000",                   2021, "Ampere",      8.6,  24, 27.8,   55.6, 111.1,   768, "NVIDIA RTX A5000 data sheet", kOnce},
    {"rtx-a6000",      "a6000",                   2020, "Ampere",      8.6,  48, 38.7,   77.4, 154.8,   768, kAmperePaper, kTwice},
    {"a10",            "",                        2021, "Ampere",      8.6,  24, 31.2,   62.5, 125,     600, "NVIDIA A10 data sheet", kTwice},
    {"a40",            "",                        2020, "Ampere",      8.6,  48, 37.4,   74.8, 149.7,   696, "NVIDIA A40 data sheet", kTwice},
    {"rtx-4070",       "",                        2023, "Ada",         8.9,  12, 29.1,   29.1,  58.3,   504, "GeForce RTX 4070 product page; tensor rates from cores and clock", kOnce},
    {"rtx-4080",       "",                        2022, "Ada",         8.9,  16, 48.7,   48.7,  97.5,   717, kAdaPaper, kTwice},
    {"rtx-4090",       "",                        2022, "Ada",         8.9,  24, 82.6,   82.6, 165.2,  1008, kAdaPaper, kTwice},
    {"l4",             "",                        2023, "Ada",         8.9,  24, 30.3,   60,   121,     300, "NVIDIA L4 data sheet", kTwice},
    {"l40",            "",                        2022, "Ada",         8.9,  48, 90.5,   90.5, 181,     864, "NVIDIA L40 data sheet", kTwice},
    {"l40s",           "",                        2023, "Ada",         8.9,  48, 91.6,  183,   362,     864, "NVIDIA L40S data sheet", kTwice},
    {"rtx-6000-ada",   "",                        2022, "Ada",         8.9,  48, 91.1,  182.1, 364.2,   960, "NVIDIA RTX 6000 Ada data sheet", kOnce},
    {"h100-pcie-80gb", "h100-pcie",               2022, "Hopper",      9.0,  80, 51.2,  378,   756,    2000, "NVIDIA H100 data sheet (halved: stated with sparsity)", kTwice},
    {"h100-nvl-94gb",  "h100-nvl",                2023, "Hopper",      9.0,  94, 60,    417,   835,    3900, "NVIDIA H100 data sheet (halved: stated with sparsity)", kOnce},
    {"h100-sxm-80gb",  "h100 h100-sxm",           2022, "Hopper",      9.0,  80, 66.9,  494,   989,    3350, "NVIDIA H100 data sheet (halved: stated with sparsity)", kTwice},
    {"h200-sxm-141gb", "h200 h200-sxm",           2024, "Hopper",      9.0, 141, 66.9,  494,   989,    4800, "NVIDIA H200 data sheet (halved: stated with sparsity)", kTwice},
    {"gh200-96gb",     "gh200 gh-96 gh200-480gb",             2023, "Hopper",      9.0,  96, 66.9,  494,   989,    4000, "NVIDIA GH200 data sheet (halved: stated with sparsity)", kTwice},
    {"gh200-144gb",    "",                        2024, "Hopper",      9.0, 144, 66.9,  494,   989,    4900, "NVIDIA GH200 data sheet (halved: stated with sparsity)", kTwice},
    {"b200-180gb",     "b200 b200-sxm",           2024, "Blackwell",  10.0, 180, 75,   1100,  2250,    7700, "NVIDIA HGX B200 data sheet, an eighth of eight", kTwice},
    {"rtx-5090",       "",                        2025, "Blackwell",  12.0,  32, 104.8, 104.8, 209.5,  1792, kBlackwellPaper, kTwice},
};
// clang-format on

constexpr double kTera = 1e12;
constexpr double kGiga = 1e9;

}  // namespace

std::span<const CatalogueEntry> catalogue() { return kTable; }

const CatalogueEntry* find_in_catalogue(std::string_view name) {
  const auto meant = [&](std::string_view other) { return same_device_type(other, name); };
  for (const CatalogueEntry& entry : kTable) {
    if (meant(entry.name)) return &entry;
    const auto aliases = split(entry.aliases, ' ');
    if (!name.empty() && std::any_of(aliases.begin(), aliases.end(), meant)) return &entry;
  }
  return nullptr;
}

std::vector<std::string> catalogue_names() {
  std::vector<std::string> names;
  for (const CatalogueEntry& entry : kTable) names.emplace_back(entry.name);
  return names;
}

DeviceKind kind_from(const CatalogueEntry& entry, const std::string& name) {
  DeviceKind kind;
  kind.name = name;
  kind.memory = std::llround(entry.gigabytes * kGiga);
  kind.plan_share = kUsualPlanShare;
  kind.peak_flops = entry.fp32_tflops * kTera;
  kind.peak_flops_tf32 = entry.tf32_tflops * kTera;
  kind.peak_flops_fp16 = entry.fp16_tflops * kTera;
  kind.fp32_efficiency = fp32_efficiency_of(entry.compute_capability);
  kind.tensor_efficiency = tensor_efficiency_of(entry.compute_capability);
  kind.memory_bandwidth = entry.gigabytes_per_second * kGiga;
  return kind;
}

std::optional<DeviceKind> try_catalogue_kind(const std::string& name) {
  const CatalogueEntry* entry = find_in_catalogue(name);
  if (entry == nullptr) return std::nullopt;
  return kind_from(*entry, name);
}

double tensor_efficiency_of(double compute_capability) {
  return compute_capability == 8.0 ? kA100TensorEfficiency : kUsualTensorEfficiency;
}

double fp32_efficiency_of(double compute_capability) {
  const bool shared =
      compute_capability == 8.6 || compute_capability == 8.9 || compute_capability == 12.0;
  return shared ? 0.6 : kUsualFp32Efficiency;
}

}  // namespace hetpipe
