// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "partitioner/cluster/cluster.h"

// Vendors' data of common GPUs: a cluster file that names one of these as a
// device type may leave its numbers out. Dense rates, without sparsity.
namespace hetpipe {

// How a row of the table was checked.
enum class Checked {
  twice,  // the source as we know it agrees with a second, independent listing
  once    // no second listing was available: doubt these first when an estimate is off
};

struct CatalogueEntry {
  std::string_view name;
  std::string_view aliases;  // separated by spaces
  int year;
  std::string_view architecture;
  double compute_capability;
  double gigabytes;    // as sold: powers of ten stand in for what driver and libraries take of GiB
  double fp32_tflops;  // outside of tensor cores
  double tf32_tflops;  // tensor cores; 0: has none for it
  double fp16_tflops;  // tensor cores with fp32 accumulation; packed halves before there were any;
                       // 0: no faster than fp32
  double gigabytes_per_second;
  std::string_view source;
  Checked checked;
};

// By generation, and within one by power.
std::span<const CatalogueEntry> catalogue();

// By name or alias, however it is written ("RTX_3090", "rtx3090": same_device_type).
const CatalogueEntry* find_in_catalogue(std::string_view name);
std::vector<std::string> catalogue_names();  // without aliases

// The device type of a cluster file that gives no numbers, under the name used there.
DeviceKind kind_from(const CatalogueEntry& entry, const std::string& name);
std::optional<DeviceKind> try_catalogue_kind(const std::string& name);

// The share of tensor cores' peaks that large products reach: for the GA100 (A100, A30; compute
// capability 8.0) fitted to measured training iterations (docs/measured.md), elsewhere the usual.
inline constexpr double kA100TensorEfficiency = 0.8;
double tensor_efficiency_of(double compute_capability);

// The share of the fp32 peak that large matrix products reach. Where a second fp32 path is shared
// with integers (GA10x, AD10x, GB20x) published products reach 0.5 to 0.7 of it, elsewhere 0.8 to
// 0.9 (docs/devices-and-profiles.md).
double fp32_efficiency_of(double compute_capability);

}  // namespace hetpipe
