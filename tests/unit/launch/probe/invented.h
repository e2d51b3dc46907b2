// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "launch/probe/pool.h"

// Pools that nobody has, for tests.
namespace hetpipe::test {

constexpr std::size_t kGiB = std::size_t{1} << 30;

inline SeenCard card(const std::string& name, const std::string& uuid, std::size_t gibibytes,
                     int index = 0) {
  SeenCard seen;
  seen.gpu.index = index;
  seen.gpu.name = name;
  seen.gpu.uuid = uuid;
  seen.gpu.pci = "0000:0" + std::to_string(index) + ":00.0";
  seen.gpu.major = 8;
  seen.gpu.minor = 6;
  seen.gpu.memory = gibibytes * kGiB;
  seen.gpu.free_memory = seen.gpu.memory - kGiB / 2;
  seen.gpu.memory_bandwidth = 900e9;
  return seen;
}

inline SeenCard rtx_3090(const std::string& uuid, int index = 0) {
  return card("NVIDIA GeForce RTX 3090", uuid, 24, index);
}
inline SeenCard unknown_card(const std::string& uuid, int index = 0) {
  return card("NVIDIA Marvel X1", uuid, 10, index);
}

inline ProbeFacts rank_on(const std::string& host, std::vector<SeenCard> cards = {}) {
  ProbeFacts facts;
  facts.rank = {.host = host,
                .pid = 7,
                .cores = {0, 1},
                .online = 2,
                .memory = 64'000'000'000,
                .build = 5,
                .boot = "boot of " + host,
                .place = "boot of " + host,
                .configuration = ""};
  facts.processor = "Invented CPU";
  facts.cards = std::move(cards);
  if (facts.cards.empty()) facts.why_no_card = "the driver lists no GPU for this process";
  return facts;
}

}  // namespace hetpipe::test
