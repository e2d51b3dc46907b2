// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/fields.h"
#include "base/precision.h"
#include "kernels/devices.h"
#include "runtime/training/job.h"
#include "runtime/training/roles.h"

namespace hetpipe {

// The device of a worker's rank.
struct RankDevice {
  std::string name = "cpu";  // of make_device
  int gpu = 0;               // cuda: as CUDA counts those that the rank sees
  std::string uuid{};        // cuda: names the card, whoever sees it
  std::string card{};        // cuda: its name, as the driver gives it
  Precision precision = Precision::fp32;
  std::int64_t memory = 0;   // cuda: bytes of the card
  std::string text = "cpu";  // for people: "NVIDIA H200, bf16"
  std::string why{};         // auto: why this, if it could have been a GPU
  bool nccl = false;         // cuda: NCCL can be loaded; else why not
  std::string why_no_nccl{};
};
constexpr auto fields_of(Type<RankDevice>) {
  return fields<&RankDevice::name, &RankDevice::gpu, &RankDevice::uuid, &RankDevice::card,
                &RankDevice::precision, &RankDevice::memory, &RankDevice::text, &RankDevice::why,
                &RankDevice::nccl, &RankDevice::why_no_nccl>;
}

// The place of a rank among those that share the GPUs that they see.
struct GpuPlace {
  int in_node = 0;  // of the plan's device: its index in its node
  int on_host = 0;  // of the rank among the workers of its host, where places are emulated
};

// "auto" takes a GPU if there is one, except for a type that is emulated at the speed of the CPU. A
// rank that sees several GPUs takes the one whose index its device has in its node (of an emulated
// cluster: its own among the workers of its host), counted round where there are fewer. SystemError
// if CUDA is requested and not available.
RankDevice decide_device(const TrainJob& job, const Role::Worker& worker, const GpuPlace& place,
                         const VisibleGpus& seen);

// For rank 0's log: who computes on the CPU although "auto" looked for a GPU, and why; else empty.
std::string left_to_the_cpu(const std::vector<RankDevice>& devices);

// A warning if a worker's GPU is another card than its type is named after, by ranks, type and
// card; else empty. Only kinds that bear a name of the catalogue say which card they mean; a card
// that has no row there is taken for another one where it has less than four fifths of the memory
// (a part of a card). Emulated kinds are something else on purpose.
std::string cards_of_other_kinds(const TrainJob& job, const Roles& roles,
                                 const std::vector<RankDevice>& devices);

// A warning if workers compute in another precision than the plan's, by ranks; else empty. Emulated
// clusters are computed by whatever this machine has.
std::string not_as_planned(const TrainJob& job, const Roles& roles,
                           const std::vector<RankDevice>& devices);

// Of a rank of this process; a server computes on no device. `hosts`: by rank.
RankDevice device_of_rank(const TrainJob& job, const Roles& roles,
                          const std::vector<std::string>& hosts, Rank rank);

}  // namespace hetpipe
