// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/cuda/ptx/global_memory.h"
#include "tests/cuda/ptx/program.h"
#include "tests/cuda/ptx/races.h"

// One launch's blocks, one after another. The lanes of a warp that stand at the same instruction
// run it together; of groups that stand apart the one that is furthest behind goes first, so that
// they meet again where paths join. A thread stops at a barrier until all of its block are there,
// and at an operation of its warp until all lanes of the mask are.
namespace hetpipe::cuda::ptx {

// What a GPU would leave to chance, or would fault on: where, which thread, and what.
class PtxFailure : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

struct Extent {
  unsigned x = 1, y = 1, z = 1;
  unsigned all() const { return x * y * z; }
};
enum class Order { ascending, descending };  // of the warps of a block

class Block {
 public:
  Block(const Program& program, Extent grid, Extent threads, std::vector<std::byte> arguments,
        GlobalMemory& global, Races& races, Order order);

  void run(Extent index);
  // Instructions of warps so far: says how much there was to do.
  std::uint64_t executed() const { return executed_; }

  // For instructions: of the warp that runs.
  std::uint32_t* registers() { return registers_; }
  unsigned first_thread() const { return warp_ * kWarp; }
  // Where an access finds its bytes; fails for a lane that may not reach there, or not now.
  enum class Access { load, store, atomic };
  std::byte* reach(Space space, unsigned lane, std::uint64_t address, unsigned bytes,
                   unsigned alignment, Access access, const std::byte* stored = nullptr);
  void warp_barrier(Lanes lanes) { races_.warp_barrier(first_thread(), lanes); }
  // A generic address's own space, and the address there.
  static Space space_of(std::uint64_t& address);
  [[noreturn]] void fail(unsigned lane, const std::string& what) const;

 private:
  enum class State { ready, at_barrier, at_warp_operation };
  // Lanes that stand at the same instruction.
  struct Group {
    std::uint32_t at = 0;
    Lanes lanes = 0;
    State state = State::ready;
  };
  struct Warp {
    std::vector<Group> groups;
    Lanes lanes = 0, left = 0;
  };

  void begin(Extent index);
  void set_special(Special special, unsigned warp, const std::uint32_t* values);
  void run_warp(unsigned warp);
  void run_group(Warp& warp, std::size_t group);
  std::uint32_t furthest_behind(const Warp& warp, std::size_t but) const;
  void merge(Warp& warp);
  // Lanes for which the instruction is not switched off.
  Lanes guarded(const Instruction& instruction, Lanes lanes);
  bool may_run_now(Warp& warp, std::size_t group, Lanes lanes);
  void pass_barrier();
  std::byte* reach_shared(unsigned lane, std::uint64_t address, unsigned bytes, Access access);
  std::byte* reach_global(unsigned lane, std::uint64_t address, unsigned bytes, Access access,
                          const std::byte* stored);
  std::byte* reach_part(Space space, unsigned lane, std::uint64_t address, unsigned bytes);

  const Program& program_;
  Extent grid_, threads_, index_;
  std::vector<std::byte> arguments_;
  GlobalMemory& global_;
  Races& races_;
  Order order_;

  std::vector<Warp> warps_;
  std::vector<std::uint32_t> memory_of_registers_;
  std::vector<std::byte> shared_, local_;
  std::vector<Shadow> shared_shadow_;
  unsigned warp_ = 0;
  std::uint32_t* registers_ = nullptr;
  const Instruction* now_ = nullptr;
  std::uint64_t executed_ = 0;
};

}  // namespace hetpipe::cuda::ptx
