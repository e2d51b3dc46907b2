// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "partitioner/cluster/cluster.h"

// Allocation policies: which devices form which virtual worker. For four nodes V R G Q, strongest
// first, with four equal devices each:
//   np  node partition       VVVV RRRR GGGG QQQQ
//   ed  equal distribution   VRGQ VRGQ VRGQ VRGQ
//   hd  hybrid distribution  VVQQ VVQQ RRGG RRGG
namespace hetpipe {

using Allocation = std::vector<std::vector<DeviceName>>;  // [virtual worker]

const std::vector<std::string>& allocation_policies();  // "np" "ed" "hd"

// Every device of the cluster goes to one virtual worker; nodes without devices play no part.
//   np  a virtual worker per node. A number that is a multiple of the nodes cuts each node's
//       devices into equal runs; one that divides the nodes joins neighbouring nodes.
//   ed  virtual worker j takes the j-th device of every node that has one: as many as the largest
//       node has devices. With a smaller number n, device j goes to virtual worker j mod n.
//   hd  the strongest node is paired with the weakest, the second with the second weakest, and so
//       on (a middle one stays alone); a node's power is the sum of its devices' speeds. Each pair
//       is cut in two, the strong node's larger share to the one, the weak node's to the other; in
//       one where it has only two devices. With a given number, each pair is cut into number /
//       pairs.
//
// kind_speed[k] is the speed of Cluster::kinds[k] in any unit (samples/s). UserError for an unknown
// policy and for a number of virtual workers that the policy cannot form.
Allocation allocate(const Cluster& cluster, const std::string& policy,
                    std::span<const double> kind_speed, std::optional<int> virtual_workers);

}  // namespace hetpipe
