// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda/ptx/block.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/text.h"
#include "tests/cuda/ptx/lanes.h"

namespace hetpipe::cuda::ptx {

Block::Block(const Program& program, Extent grid, Extent threads, std::vector<std::byte> arguments,
             GlobalMemory& global, Races& races, Order order)
    : program_(program),
      grid_(grid),
      threads_(threads),
      arguments_(std::move(arguments)),
      global_(global),
      races_(races),
      order_(order),
      warps_((threads.all() + kWarp - 1) / kWarp),
      memory_of_registers_(std::size_t{program.places} * kWarp * warps_.size()),
      shared_(program.shared.bytes),
      local_(program.local.bytes * threads.all()),
      shared_shadow_(program.shared.bytes) {
  races_.begin_launch(threads.all());
  for (warp_ = 0; warp_ < warps_.size(); ++warp_) {
    registers_ = memory_of_registers_.data() + std::size_t{program.places} * kWarp * warp_;
    for (const Program::Constant& constant : program.constants) {
      for (unsigned l = 0; l < kWarp; ++l) {
        if (constant.wide) {
          slots<std::uint64_t>(*this, constant.place)[l] = constant.bits;
        } else {
          slots<std::uint32_t>(*this, constant.place)[l] =
              static_cast<std::uint32_t>(constant.bits);
        }
      }
    }
  }
}

void Block::fail(unsigned lane, const std::string& what) const {
  throw PtxFailure(format("block (%u, %u, %u), thread %u: %s, at %s", index_.x, index_.y, index_.z,
                          first_thread() + lane, what.c_str(), program_.source_of(*now_).c_str()));
}

void Block::begin(Extent index) {
  index_ = index;
  races_.begin_block();
  std::fill(shared_.begin(), shared_.end(), std::byte{0xff});
  std::fill(local_.begin(), local_.end(), std::byte{0xff});
  const unsigned all = threads_.all();
  for (warp_ = 0; warp_ < warps_.size(); ++warp_) {
    registers_ = memory_of_registers_.data() + std::size_t{program_.places} * kWarp * warp_;
    const unsigned in_warp = std::min(kWarp, all - first_thread());
    const Lanes lanes = in_warp == kWarp ? ~0u : (1u << in_warp) - 1;
    warps_[warp_] = {.groups = {{0, lanes, State::ready}}, .lanes = lanes, .left = 0};
    for (unsigned l = 0; l < kWarp; ++l) {
      const unsigned thread = first_thread() + l;
      const std::uint32_t values[] = {thread % threads_.x,
                                      thread / threads_.x % threads_.y,
                                      thread / threads_.x / threads_.y,
                                      threads_.x,
                                      threads_.y,
                                      threads_.z,
                                      index.x,
                                      index.y,
                                      index.z,
                                      grid_.x,
                                      grid_.y,
                                      grid_.z,
                                      l,
                                      warp_};
      for (std::size_t s = 0; s < program_.specials.size(); ++s) {
        if (program_.specials[s] == kNowhere) continue;
        slots<std::uint32_t>(*this, program_.specials[s])[l] = values[s];
      }
    }
  }
}

void Block::run(Extent index) {
  begin(index);
  for (;;) {
    for (unsigned i = 0; i < warps_.size(); ++i) {
      run_warp(order_ == Order::ascending ? i : static_cast<unsigned>(warps_.size()) - 1 - i);
    }
    if (std::all_of(warps_.begin(), warps_.end(),
                    [](const Warp& warp) { return warp.groups.empty(); })) {
      return;
    }
    pass_barrier();
  }
}

// All lanes of all warps stand at the same barrier, or something is wrong.
void Block::pass_barrier() {
  const Group* first = nullptr;
  unsigned first_waiting = 0;
  for (warp_ = 0; warp_ < warps_.size(); ++warp_) {
    for (const Group& group : warps_[warp_].groups) {
      const auto lane = static_cast<unsigned>(std::countr_zero(group.lanes));
      now_ = &program_.instructions[group.at];
      if (first == nullptr) {
        first = &group;
        first_waiting = first_thread() + lane;
      } else if (group.at != first->at) {
        fail(lane, format("waits at another barrier than thread %u, which is at line %d",
                          first_waiting, program_.instructions[first->at].line));
      }
    }
  }
  for (warp_ = 0; warp_ < warps_.size(); ++warp_) {
    const Warp& warp = warps_[warp_];
    if (warp.left == 0) continue;
    fail(static_cast<unsigned>(std::countr_zero(warp.left)),
         format("has left, while thread %u waits for all of its block", first_waiting));
  }
  races_.barrier();
  for (Warp& warp : warps_) {
    for (Group& group : warp.groups) {
      group.state = State::ready;
      ++group.at;
    }
    merge(warp);
  }
}

// Until each of its lanes has left or waits for other warps.
void Block::run_warp(unsigned number) {
  warp_ = number;
  registers_ = memory_of_registers_.data() + std::size_t{program_.places} * kWarp * warp_;
  Warp& warp = warps_[warp_];
  for (;;) {
    std::size_t next = warp.groups.size();
    for (std::size_t g = 0; g < warp.groups.size(); ++g) {
      if (warp.groups[g].state != State::ready) continue;
      if (next == warp.groups.size() || warp.groups[g].at < warp.groups[next].at) next = g;
    }
    if (next == warp.groups.size()) break;
    run_group(warp, next);
    std::erase_if(warp.groups, [](const Group& group) { return group.lanes == 0; });
  }
  for (const Group& group : warp.groups) {
    if (group.state != State::at_warp_operation) continue;
    now_ = &program_.instructions[group.at];
    const auto lane = static_cast<unsigned>(std::countr_zero(group.lanes));
    const Lanes mask = slots<std::uint32_t>(*this, now_->from.back())[lane];
    fail(lane, format("waits for the lanes of mask %08x, of which only %08x take part and %08x "
                      "have left",
                      mask, group.lanes, warp.left));
  }
}

std::uint32_t Block::furthest_behind(const Warp& warp, std::size_t but) const {
  std::uint32_t at = ~0u;
  for (std::size_t g = 0; g < warp.groups.size(); ++g) {
    if (g != but && warp.groups[g].state == State::ready && warp.groups[g].lanes != 0) {
      at = std::min(at, warp.groups[g].at);
    }
  }
  return at;
}

// Groups that stand at the same instruction are one, unless one of them waits there.
void Block::merge(Warp& warp) {
  for (std::size_t a = 0; a < warp.groups.size(); ++a) {
    for (std::size_t b = a + 1; b < warp.groups.size(); ++b) {
      const Group &one = warp.groups[a], &other = warp.groups[b];
      if (one.at != other.at || one.state != other.state) continue;
      if (one.state == State::at_warp_operation) continue;  // perhaps of other masks
      warp.groups[a].lanes |= std::exchange(warp.groups[b].lanes, 0);
    }
  }
  std::erase_if(warp.groups, [](const Group& group) { return group.lanes == 0; });
}

Lanes Block::guarded(const Instruction& instruction, Lanes lanes) {
  if (instruction.guard == kNowhere) return lanes;
  const std::uint32_t* const predicate = slots<bool>(*this, instruction.guard);
  Lanes on = 0;
  for (unsigned l = 0; l < kWarp; ++l) on |= predicate[l] << l;
  return lanes & (instruction.guard_negated ? ~on : on);
}

// Until it stops, splits, or comes to where another group stands.
void Block::run_group(Warp& warp, std::size_t number) {
  const std::uint32_t others = furthest_behind(warp, number);
  std::uint32_t at = warp.groups[number].at;
  Lanes lanes = warp.groups[number].lanes;
  const auto stop = [&] {
    warp.groups[number].at = at;
    warp.groups[number].lanes = lanes;
    merge(warp);
  };
  const bool may_merge = others == at;  // the same place
  if (may_merge) return stop();
  while (at < others) {
    const Instruction& instruction = program_.instructions[at];
    now_ = &instruction;
    ++executed_;
    const Lanes on = guarded(instruction, lanes);
    switch (instruction.flow) {
      case Flow::none:
        if (on != 0) instruction.execute(*this, instruction, on);
        ++at;
        continue;
      case Flow::branch:
        if (on == lanes) {
          at = instruction.target;
        } else {
          if (on != 0) warp.groups.push_back({instruction.target, on, State::ready});
          lanes &= ~on;
          ++at;
          if (on != 0) return stop();
        }
        continue;
      case Flow::leave:
        warp.left |= on;
        lanes &= ~on;
        ++at;
        if (lanes == 0) return stop();
        continue;
      case Flow::barrier:
      case Flow::warp_operation:
        // Lanes that it is switched off for go on, as a group of their own.
        if (on != lanes) {
          if (on == 0) {
            ++at;
            continue;
          }
          warp.groups.push_back({at + 1, lanes & ~on, State::ready});
          lanes = on;
          warp.groups[number].lanes = lanes;
        }
        if (instruction.flow == Flow::barrier) {
          warp.groups[number].state = State::at_barrier;
          return stop();
        }
        warp.groups[number].at = at;
        if (!may_run_now(warp, number, lanes)) return;
        lanes = warp.groups[number].lanes;
        instruction.execute(*this, instruction, lanes);
        ++at;
        return stop();
    }
  }
  stop();
}

// Whether the group, and those that wait at the same instruction, are all lanes of the mask.
bool Block::may_run_now(Warp& warp, std::size_t number, Lanes lanes) {
  const Instruction& instruction = program_.instructions[warp.groups[number].at];
  const std::uint32_t* const masks = slots<std::uint32_t>(*this, instruction.from.back());
  const Lanes mask = masks[std::countr_zero(lanes)];
  for_lanes(lanes, [&](unsigned l) {
    if (masks[l] != mask) {
      fail(l, format("has mask %08x where thread %u has %08x", masks[l],
                     first_thread() + static_cast<unsigned>(std::countr_zero(lanes)), mask));
    }
    if ((mask >> l & 1) == 0) fail(l, format("is not in its own mask %08x", mask));
  });
  if ((mask & ~warp.lanes) != 0) {
    fail(static_cast<unsigned>(std::countr_zero(lanes)),
         format("the mask %08x names lanes that the block does not have", mask));
  }
  Lanes here = lanes;
  for (Group& group : warp.groups) {
    if (&group == &warp.groups[number] || group.state != State::at_warp_operation) continue;
    if (group.at != warp.groups[number].at) continue;
    const auto other = static_cast<unsigned>(std::countr_zero(group.lanes));
    if (masks[other] == mask) {
      here |= std::exchange(group.lanes, 0);
    }
  }
  warp.groups[number].lanes = here;
  if (here == mask) {
    warp.groups[number].state = State::ready;
    return true;
  }
  warp.groups[number].state = State::at_warp_operation;
  return false;
}

}  // namespace hetpipe::cuda::ptx
