// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/cuda/ptx/module.h"

// An entry in the form that is executed: every operand is a place in the register file of a warp,
// also numbers and special registers, and every instruction is a function.
namespace hetpipe::cuda::ptx {

class Block;
struct Instruction;
using Lanes = std::uint32_t;  // a bit for each lane of a warp
using Execute = void (*)(Block&, const Instruction&, Lanes);

inline constexpr unsigned kWarp = 32;

// Places count in units of 32 lanes of 4 bytes; registers of 64 bits have two, behind one another.
using Place = std::uint32_t;
inline constexpr Place kNowhere = ~0u;

// What the scheduler of warps does itself.
enum class Flow : std::uint8_t { none, branch, leave, barrier, warp_operation };

struct Instruction {
  Execute execute = nullptr;
  Flow flow = Flow::none;
  bool guard_negated = false;
  std::uint8_t count = 0;  // elements of a vector
  std::uint16_t wide = 0;  // bit i: place i is of 64 bits; to, then from
  Place guard = kNowhere;
  std::array<Place, 4> to{kNowhere, kNowhere, kNowhere, kNowhere};
  std::array<Place, 6> from{kNowhere, kNowhere, kNowhere, kNowhere, kNowhere, kNowhere};
  std::int64_t offset = 0;   // of an address
  std::uint32_t target = 0;  // of a branch
  int line = 0;

  bool to_is_wide(unsigned i) const { return (wide >> i & 1) != 0; }
  bool from_is_wide(unsigned i) const { return (wide >> (4 + i) & 1) != 0; }
};

enum class Special : std::uint8_t {
  tid_x,
  tid_y,
  tid_z,
  ntid_x,
  ntid_y,
  ntid_z,
  ctaid_x,
  ctaid_y,
  ctaid_z,
  nctaid_x,
  nctaid_y,
  nctaid_z,
  laneid,
  warpid,
  count
};

// Addresses inside of a space begin here, so that null is outside of each.
inline constexpr std::uint64_t kFirstAddress = 0x400;
// A generic address of a space other than global: this many above the one inside of the space.
// Not canonical on any 64-bit host, so no address of the host's.
constexpr std::uint64_t window_of(Space space) {
  return space == Space::shared  ? 0x5aull << 56
         : space == Space::local ? 0x5bull << 56
         : space == Space::param ? 0x5cull << 56
                                 : 0;
}

// Of a space of a block or of a thread: no two variables touch, so that what leaves one is seen.
struct Layout {
  struct Part {
    std::uint64_t first = 0, bytes = 0;
    std::string_view name;
  };
  std::vector<Part> parts;  // offsets
  std::uint64_t bytes = 0;

  std::uint64_t add(const Variable& variable);  // its offset
  bool holds(std::uint64_t offset, std::uint64_t count) const;
};

// Of global memory: at addresses of the host.
struct Region {
  std::uint64_t first = 0, bytes = 0;
};

struct Program {
  std::shared_ptr<const Module> module;
  const Entry* entry = nullptr;
  std::vector<Instruction> instructions;
  Place places = 0;
  struct Constant {
    Place place;
    std::uint64_t bits;
    bool wide;
  };
  std::vector<Constant> constants;
  std::array<Place, static_cast<std::size_t>(Special::count)> specials;
  Layout shared, local;
  // Of the module.
  std::vector<std::unique_ptr<std::byte[]>> globals;
  std::vector<Region> global_regions;

  std::string source_of(const Instruction& instruction) const;  // FILE:LINE: TEXT
};

// UserError at an opcode that the interpreter does not have.
std::unique_ptr<const Program> decode(const std::shared_ptr<const Module>& module,
                                      const Entry& entry);

}  // namespace hetpipe::cuda::ptx
