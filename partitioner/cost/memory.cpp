// SPDX-License-Identifier: Apache-2.0
#include "partitioner/cost/memory.h"

#include <algorithm>
#include <array>
#include <iterator>

namespace hetpipe {

std::int64_t MemoryLedger::total() const {
  std::int64_t sum = 0;
  for (const LedgerLine& line : lines) sum += line.bytes;
  return sum;
}

namespace {

struct NamedLine {
  const char* name;
  std::int64_t LedgerBytes::*bytes;
};
constexpr std::array kLines{NamedLine{"weights", &LedgerBytes::weights},
                            NamedLine{"gradients", &LedgerBytes::gradients},
                            NamedLine{"optimizer", &LedgerBytes::optimizer},
                            NamedLine{"average", &LedgerBytes::average},
                            NamedLine{"stashed versions", &LedgerBytes::stashed_versions},
                            NamedLine{"deferred updates", &LedgerBytes::deferred_updates},
                            NamedLine{"second version", &LedgerBytes::second_version},
                            NamedLine{"summed update", &LedgerBytes::summed_update},
                            NamedLine{"predicted weights", &LedgerBytes::predicted_weights},
                            NamedLine{"older version", &LedgerBytes::older_version},
                            NamedLine{"wave updates", &LedgerBytes::wave_updates},
                            NamedLine{"tied weights", &LedgerBytes::tied_weights},
                            NamedLine{"all-reduce", &LedgerBytes::all_reduce},
                            NamedLine{"activations", &LedgerBytes::activations},
                            NamedLine{"samples ahead", &LedgerBytes::samples_ahead},
                            NamedLine{"messages", &LedgerBytes::messages},
                            NamedLine{"waiting gradients", &LedgerBytes::waiting_gradients},
                            NamedLine{"workspace", &LedgerBytes::workspace}};
static_assert(sizeof(LedgerBytes) == kLines.size() * sizeof(std::int64_t));

MemoryLedger with_names(const LedgerBytes& bytes) {
  MemoryLedger ledger;
  ledger.lines.reserve(static_cast<std::size_t>(
      std::count_if(std::begin(kLines), std::end(kLines),
                    [&](const NamedLine& line) { return bytes.*line.bytes > 0; })));
  for (const NamedLine& line : kLines) {
    if (bytes.*line.bytes > 0) ledger.lines.push_back({line.name, bytes.*line.bytes});
  }
  return ledger;
}

}  // namespace

MemoryLedger device_ledger(const MemoryRule& rule, std::span<const HeldCounts> counts, int device,
                           std::span<const ChunkMemory> chunks) {
  return with_names(MemoryBound(rule, counts, device).lines(chunks));
}

MemoryLedger stage_ledger(const StageFootprint& footprint, const PipelineShape& shape,
                          StageId stage) {
  const ChunkMemory chunk{footprint, Keep::activations};
  return with_names(memory_bound(shape, stage).lines({&chunk, 1}));
}

}  // namespace hetpipe
