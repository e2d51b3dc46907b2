// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "partitioner/cluster/cluster.h"
#include "partitioner/plan/plan.h"
#include "partitioner/planners/allocation.h"

// Which devices could form which virtual workers: the starts of the search.
namespace hetpipe {

// Virtual workers with equal keys are alike: the same kinds on nodes that hang together in the same
// way (nodes are interchangeable unless a rule names them). Brings the devices into an order that
// is the same for all of them.
std::string worker_key(const Cluster& cluster, std::vector<DeviceName>& devices);

// Any two compositions with equal keys are alike. Brings the devices of each virtual worker into
// the order of worker_key.
std::string composition_key(const Cluster& cluster, Allocation& composition);

// The devices of each virtual worker of a plan, stage by stage.
Allocation composition_of(const Plan& plan);

// kind_speed[k]: samples/s of the whole model on one device of Cluster::kinds[k]. Every virtual
// worker does the same number of minibatches, so the slowest sets the pace: number of virtual
// workers * the smallest sum of speeds, no communication, in samples/s.
double ideal_throughput(const Cluster& cluster, std::span<const double> kind_speed,
                        const Allocation& composition);

// A virtual worker of each node with devices, at most max_stages of each, and the same without the
// slowest node, the two slowest ... : what people would try first. None in clusters of many nodes.
std::vector<Allocation> node_compositions(const Cluster& cluster,
                                          std::span<const double> kind_speed, int max_stages);

// Of these devices one of each kind on each node: their places among them.
std::vector<std::size_t> one_of_each(const Cluster& cluster,
                                     const std::vector<DeviceName>& devices);

// Virtual workers that have equally many devices of each of two or more nodes, others left out:
// where they are cut alike, a layer has the same node in all of them, and with shards beside the
// stages (placement "local") no parameter leaves its node. None in clusters of many nodes.
std::vector<Allocation> aligned_compositions(const Cluster& cluster,
                                             std::span<const double> kind_speed,
                                             std::optional<int> virtual_workers, int max_stages);

// At most `most` compositions, none alike, the best by ideal_throughput for every number of virtual
// workers: HetPipe's policies with every number they can form, devices dealt out by speed, filled
// up node by node and kind by kind, each with all kinds and without the slowest one, two ...; and
// each of these without the devices that only make a virtual worker faster than the slowest one.
// max_stages: no virtual worker has more devices. `without` is left out, and policies with it: they
// use every device.
std::vector<Allocation> likely_compositions(const Cluster& cluster,
                                            std::span<const double> kind_speed,
                                            std::optional<int> virtual_workers, int max_stages,
                                            std::size_t most,
                                            const std::optional<DeviceName>& without = {});

}  // namespace hetpipe
