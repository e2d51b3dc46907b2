// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "base/text.h"
#include "tests/cuda/ptx/block.h"

namespace hetpipe::cuda::ptx {
namespace {

const char* to_string(Space space) {
  switch (space) {
    case Space::shared:
      return "shared";
    case Space::local:
      return "local";
    case Space::param:
      return "parameter";
    default:
      return "global";
  }
}

unsigned long long printable(std::uint64_t value) { return value; }

}  // namespace

Space Block::space_of(std::uint64_t& address) {
  for (const Space space : {Space::shared, Space::local, Space::param}) {
    if (address >> 56 != window_of(space) >> 56) continue;
    address -= window_of(space);
    return space;
  }
  return Space::global;
}

std::byte* Block::reach(Space space, unsigned lane, std::uint64_t address, unsigned bytes,
                        unsigned alignment, Access access, const std::byte* stored) {
  if (space == Space::generic) space = space_of(address);
  if (address % alignment != 0) {
    fail(lane, format("%s address 0x%llx of %u bytes is not aligned", to_string(space),
                      printable(address), bytes));
  }
  switch (space) {
    case Space::shared:
      return reach_shared(lane, address, bytes, access);
    case Space::local:
    case Space::param:
      return reach_part(space, lane, address, bytes);
    default:
      return reach_global(lane, address, bytes, access, stored);
  }
}

std::byte* Block::reach_part(Space space, unsigned lane, std::uint64_t address, unsigned bytes) {
  const std::uint64_t offset = address - kFirstAddress;
  const bool inside = space == Space::local
                          ? program_.local.holds(offset, bytes)
                          : offset < arguments_.size() && arguments_.size() - offset >= bytes;
  if (!inside) {
    fail(lane, format("%u bytes at %s offset %lld, outside of what is there", bytes,
                      to_string(space), static_cast<long long>(offset)));
  }
  if (space == Space::param) return arguments_.data() + offset;
  return local_.data() + program_.local.bytes * (first_thread() + lane) + offset;
}

std::byte* Block::reach_shared(unsigned lane, std::uint64_t address, unsigned bytes,
                               Access access) {
  const std::uint64_t offset = address - kFirstAddress;
  if (!program_.shared.holds(offset, bytes)) {
    fail(lane, format("%u bytes at shared offset %lld, outside of every variable", bytes,
                      static_cast<long long>(offset)));
  }
  const unsigned thread = first_thread() + lane;
  for (unsigned b = 0; b < bytes; ++b) {
    Shadow& shadow = shared_shadow_[offset + b];
    if (access != Access::store && !races_.written_in_block(shadow)) {
      fail(lane, format("reads byte %u of %u at shared offset %llu, which nobody has written", b,
                        bytes, printable(offset)));
    }
    if (access == Access::atomic) continue;
    const Shadow before = shadow;
    const Race race = access == Access::store ? races_.write<true>(shadow, thread)
                                              : races_.read<true>(shadow, thread);
    if (race == Race::none) continue;
    const std::uint64_t stamp = race == Race::with_write ? before.write : before.read;
    fail(lane, format("a race: %s shared offset %llu, which thread %u %s with no barrier between",
                      access == Access::store ? "writes" : "reads", printable(offset),
                      Races::thread_of(stamp), race == Race::with_write ? "wrote" : "read"));
  }
  return shared_.data() + offset;
}

// A store of what is there already races with nobody.
std::byte* Block::reach_global(unsigned lane, std::uint64_t address, unsigned bytes, Access access,
                               const std::byte* stored) {
  if (!global_.holds(address, bytes)) {
    fail(lane, format("%s %u bytes at 0x%llx, outside of every allocation",
                      access == Access::store ? "writes" : "reads", bytes, printable(address)));
  }
  auto* const place = reinterpret_cast<std::byte*>(address);
  if (access == Access::atomic) return place;
  if (access == Access::store && std::memcmp(place, stored, bytes) == 0) return place;
  const unsigned thread = first_thread() + lane;
  Shadow* const shadow = global_.shadow_of(address);
  Shadow first_before{}, first_after{};
  for (unsigned b = 0; b < bytes; ++b) {
    if (b > 0 && shadow[b] == first_before) {
      shadow[b] = first_after;
      continue;
    }
    first_before = shadow[b];
    const Race race = access == Access::store ? races_.write<false>(shadow[b], thread)
                                              : races_.read<false>(shadow[b], thread);
    first_after = shadow[b];
    if (race == Race::none) continue;
    const std::uint64_t stamp = race == Race::with_write ? first_before.write : first_before.read;
    fail(lane,
         format("a race: %s global 0x%llx, which %s %s, in no order",
                access == Access::store ? "writes" : "reads", printable(address),
                races_.is_of_block(stamp) ? format("thread %u", Races::thread_of(stamp)).c_str()
                                          : "another block",
                race == Race::with_write ? "wrote" : "read"));
  }
  return place;
}

}  // namespace hetpipe::cuda::ptx
