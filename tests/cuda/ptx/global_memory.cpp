// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda/ptx/global_memory.h"

namespace hetpipe::cuda::ptx {
namespace {

bool region_holds(const Region& region, std::uint64_t address, std::uint64_t bytes) {
  return address >= region.first && address - region.first < region.bytes &&
         region.bytes - (address - region.first) >= bytes;
}

}  // namespace

void GlobalMemory::begin_launch(const Program& program) {
  program_ = &program;
  regions_ = {};
  if (pages_.size() < kMostPages) return;
  pages_.clear();
  cached_ = {};
}

bool GlobalMemory::holds(std::uint64_t address, std::uint64_t bytes) {
  Region& region = regions_[address / kPage % regions_.size()];
  if (region_holds(region, address, bytes)) return true;
  for (const Region& own : program_->global_regions) {
    if (region_holds(own, address, bytes)) return true;
  }
  const auto found = find_(address);
  if (!found || !region_holds(*found, address, bytes)) return false;
  region = *found;
  return true;
}

Shadow* GlobalMemory::shadow_of(std::uint64_t address) {
  const std::uint64_t number = address / kPage;
  Cached& cached = cached_[number % cached_.size()];
  if (cached.number != number) {
    std::unique_ptr<Page>& page = pages_[number];
    if (page == nullptr) page = std::make_unique<Page>();
    cached = {number, page.get()};
  }
  return &cached.page->bytes[address % kPage];
}

}  // namespace hetpipe::cuda::ptx
