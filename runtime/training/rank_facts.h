// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/fields.h"

namespace hetpipe {

// What a rank reports about itself at the start.
struct RankFacts {
  std::string host;
  int pid = 0;
  std::vector<int> cores;     // that it may run on
  int online = 0;             // cores of the machine
  std::int64_t memory = 0;    // bytes of the machine
  std::uint64_t build = 0;    // hash of the program
  std::string boot;           // names the running machine, whatever its host names: one clock
  std::string place;          // the same where loopback and process ids are: containers differ
  std::string configuration;  // all options, as a file
  bool mpi_reaches_gpus = false;
};
constexpr auto fields_of(Type<RankFacts>) {
  return fields<&RankFacts::host, &RankFacts::pid, &RankFacts::cores, &RankFacts::online,
                &RankFacts::memory, &RankFacts::build, &RankFacts::boot, &RankFacts::place,
                &RankFacts::configuration, &RankFacts::mpi_reaches_gpus>;
}

RankFacts facts_of_this_rank();
// "rank 3 on n1", "ranks 1, 2 and 3 on n1 and n2".
std::string named(const std::vector<std::size_t>& ranks, const std::vector<RankFacts>& facts);
std::vector<std::string> hosts_of(const std::vector<RankFacts>& facts);

// Before anything is read: one build, started with the same options (except the path of the data,
// which may differ from host to host). UserError.
void check_alike(const std::vector<RankFacts>& facts);

}  // namespace hetpipe
