// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/fields.h"
#include "kernels/cuda/module.h"
#include "launch/probe/nvml.h"
#include "runtime/training/rank_facts.h"

namespace hetpipe {

// A card as a rank sees it, with what the system reports in addition to CUDA.
struct SeenCard {
  GpuInfo gpu;
  std::string pcie;  // "4.0 x16", the most that card and slot agree on; empty: not known
  std::vector<NvLinks> nvlink{};  // by peer
  std::vector<int> near_cores{};  // of its NUMA node; empty: not known, or there is one node
};
constexpr auto fields_of(Type<SeenCard>) {
  return fields<&SeenCard::gpu, &SeenCard::pcie, &SeenCard::nvlink, &SeenCard::near_cores>;
}

// The facts about a rank of `hetpipe probe` and its machine.
struct ProbeFacts {
  RankFacts rank;
  std::string processor;  // "AMD EPYC 9B45"; empty: not known
  std::vector<SeenCard> cards;
  std::string why_no_card;    // if there is none although one was looked for
  std::string driver;         // of the cards: "580.95.05"; empty: not known
  std::string why_no_nvlink;  // why the cards' NVLinks are not known
  std::string libraries;      // "CUDA 13.0, cuDNN 9.19.0, ..."; empty without a CUDA module
  std::vector<std::string> left_out{};  // why, of each card that this build cannot use
};
constexpr auto fields_of(Type<ProbeFacts>) {
  return fields<&ProbeFacts::rank, &ProbeFacts::processor, &ProbeFacts::cards,
                &ProbeFacts::why_no_card, &ProbeFacts::driver, &ProbeFacts::why_no_nvlink,
                &ProbeFacts::libraries, &ProbeFacts::left_out>;
}

enum class LookForCards { no, yes };
ProbeFacts probe_facts_here(LookForCards look);

// The version of the cards' driver, from the kernel: "580.95.05"; empty if not known.
std::string driver_version();
// The machine's processor, as Linux names it.
std::string processor_name();

}  // namespace hetpipe
