// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/fields.h"
#include "launch/probe/measure_device.h"
#include "launch/probe/measure_link.h"
#include "launch/probe/pool.h"
#include "partitioner/cluster/cluster.h"

// From the measurements to a cluster, and to its texts. Plain values.
namespace hetpipe {

struct DeviceNumbers {
  double fp32_flops = 0;   // flop/s of matrix products; 0: not measured
  double usual_flops = 0;  // in PoolKind::usual
  CopyRates copies;
  std::string failure;  // why not everything was measured; empty: everything was
};
constexpr auto fields_of(Type<DeviceNumbers>) {
  return fields<&DeviceNumbers::fp32_flops, &DeviceNumbers::usual_flops, &DeviceNumbers::copies,
                &DeviceNumbers::failure>;
}

struct LinkResult {
  LinkTest test;
  std::optional<LinkNumbers> numbers;
  std::string failure;  // "no answer within 10 s"
};

struct Probed {
  Pool pool;
  std::vector<DeviceNumbers> devices;  // by kind
  std::vector<LinkResult> links;

  bool complete() const;  // everything answered
};

// Kinds with their memory and rates, nodes, and links:
//   a kind of the catalogue keeps its peaks, and its fp32 efficiency becomes what was measured;
//   any other's peak is what was measured, with an efficiency of 1;
//   intra_node and inter_node are the fastest links of their sort, each at its slower direction;
//   a pair of kinds whose links are all below two thirds of that, and alike, gets a rule of its
//   own; a pair of nodes (a node with itself) with a slower link than all this says gets one, at
//   its slowest.
// A sort of which nothing answered keeps bandwidth 0.
Cluster decide_cluster(const Probed& probed);

// The cluster file, with comments that give the source of each number. What is missing because
// nothing answered is noted in its place, so that `hetpipe plan` asks for it.
std::string cluster_file(const Probed& probed, const std::vector<ProbeFacts>& facts);

// As text: ranks, device types, links and notes.
std::string probe_tables(const Probed& probed, const std::vector<ProbeFacts>& facts);

// The same as one JSON document.
std::string probe_json(const Probed& probed, const std::vector<ProbeFacts>& facts,
                       const std::string& output);

// "rank 1 on n0:1", "rank 2 on n1" if that has no device: the name of an end of a link in texts.
std::string name_of_end(const Pool& pool, int rank);

}  // namespace hetpipe
