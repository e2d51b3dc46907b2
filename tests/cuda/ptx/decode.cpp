// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "tests/cuda/ptx/opcodes.h"
#include "tests/cuda/ptx/program.h"

namespace hetpipe::cuda::ptx {
namespace {

constexpr std::uint64_t kBetweenVariables = 64;

const std::map<std::string_view, Special>& special_registers() {
  static const std::map<std::string_view, Special> all = {
      {"%tid.x", Special::tid_x},       {"%tid.y", Special::tid_y},
      {"%tid.z", Special::tid_z},       {"%ntid.x", Special::ntid_x},
      {"%ntid.y", Special::ntid_y},     {"%ntid.z", Special::ntid_z},
      {"%ctaid.x", Special::ctaid_x},   {"%ctaid.y", Special::ctaid_y},
      {"%ctaid.z", Special::ctaid_z},   {"%nctaid.x", Special::nctaid_x},
      {"%nctaid.y", Special::nctaid_y}, {"%nctaid.z", Special::nctaid_z},
      {"%laneid", Special::laneid},     {"%warpid", Special::warpid}};
  return all;
}

class Decoder {
 public:
  Decoder(const std::shared_ptr<const Module>& module, const Entry& entry)
      : program_(std::make_unique<Program>()), module_(*module), entry_(entry) {
    program_->module = module;
    program_->entry = &entry;
    for (Place& place : program_->specials) place = kNowhere;
  }

  std::unique_ptr<const Program> decode() {
    for (const Variable& variable : entry_.variables) add(variable);
    for (const Statement& statement : entry_.statements) {
      program_->instructions.push_back(decode(statement));
    }
    // Behind the last statement a thread leaves, as at ret.
    Instruction last;
    last.flow = Flow::leave;
    last.line = entry_.statements.empty() ? entry_.line : entry_.statements.back().line;
    program_->instructions.push_back(last);
    return std::move(program_);
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const { refuse_ptx(module_.name, line_, what); }

  Place new_place(bool wide) {
    const Place place = program_->places;
    program_->places += wide ? 2 : 1;
    return place;
  }

  struct Known {
    Place place;
    bool wide;
  };

  Known constant(std::uint64_t bits, bool wide) {
    const auto [at, is_new] = constants_.try_emplace({bits, wide}, 0);
    if (is_new) {
      at->second = new_place(wide);
      program_->constants.push_back({at->second, bits, wide});
    }
    return {at->second, wide};
  }

  Known known(std::string_view name, bool wide_if_constant) {
    if (const auto at = registers_.find(name); at != registers_.end()) return at->second;
    if (const auto special = special_registers().find(name); special != special_registers().end()) {
      Place& place = program_->specials[static_cast<std::size_t>(special->second)];
      if (place == kNowhere) place = new_place(false);
      return registers_[name] = {place, false};
    }
    if (name == "WARP_SZ") return constant(kWarp, wide_if_constant);
    if (const std::string_view type = type_of(name); !type.empty()) {
      const bool wide = bytes_of_type(type) == 8;
      return registers_[name] = {new_place(wide), wide};
    }
    if (const auto address = address_of(name)) return constant(*address, wide_if_constant);
    refuse("'" + std::string(name) + "', neither a register nor a variable");
  }
  std::string_view type_of(std::string_view name) const {
    if (const auto at = entry_.registers.find(name); at != entry_.registers.end())
      return at->second;
    const std::size_t digits = name.find_last_not_of("0123456789") + 1;
    const auto at = entry_.registers.find(name.substr(0, digits));
    return at == entry_.registers.end() ? std::string_view() : at->second;
  }

  // Inside of its space.
  std::optional<std::uint64_t> address_of(std::string_view name) {
    for (const Parameter& parameter : entry_.parameters) {
      if (parameter.name == name) return kFirstAddress + parameter.offset;
    }
    if (const auto at = variables_.find(name); at != variables_.end()) return at->second;
    for (const Variable& variable : module_.variables) {
      if (variable.name == name) return add(variable);
    }
    return std::nullopt;
  }

  std::uint64_t add(const Variable& variable) {
    std::uint64_t& address = variables_[variable.name];
    if (variable.space == Space::shared) {
      address = kFirstAddress + program_->shared.add(variable);
    } else if (variable.space == Space::local) {
      address = kFirstAddress + program_->local.add(variable);
    } else {
      auto memory = std::make_unique<std::byte[]>(variable.bytes + variable.alignment);
      const auto first = reinterpret_cast<std::uintptr_t>(memory.get());
      address = (first + variable.alignment - 1) / variable.alignment * variable.alignment;
      if (!variable.initial.empty()) {
        std::memcpy(memory.get() + (address - first), variable.initial.data(), variable.bytes);
      }
      program_->globals.push_back(std::move(memory));
      program_->global_regions.push_back({address, variable.bytes});
    }
    return address;
  }

  Instruction decode(const Statement& statement) {
    line_ = statement.line;
    Instruction result;
    result.line = line_;
    if (!statement.guard.empty()) {
      result.guard = known(statement.guard, false).place;
      result.guard_negated = statement.guard_negated;
    }
    const std::string opcode(statement.opcode);
    if (opcode == "bra" || opcode == "bra.uni") {
      result.flow = Flow::branch;
      const std::string_view label = name_of(statement, 0);
      const auto at = entry_.labels.find(label);
      if (at == entry_.labels.end()) refuse("the label '" + std::string(label) + "'");
      result.target = static_cast<std::uint32_t>(at->second);
      return result;
    }
    if (opcode == "ret" || opcode == "exit") {
      result.flow = Flow::leave;
      return result;
    }
    const Opcode found = find_opcode(opcode);
    if (found.execute == nullptr) refuse("the instruction '" + opcode + "'");
    if (found.flow == Flow::barrier &&
        (statement.operands.size() != 1 || statement.operands[0].kind != Operand::Kind::number ||
         statement.operands[0].bits != 0)) {
      refuse("a barrier of other threads than the whole block");
    }
    result.execute = found.execute;
    result.flow = found.flow;
    set_operands(statement, found, result);
    return result;
  }

  std::string_view name_of(const Statement& statement, std::size_t i) const {
    if (i >= statement.operands.size() || statement.operands[i].name.empty()) {
      refuse("'" + std::string(statement.opcode) + "' with such operands");
    }
    return statement.operands[i].name;
  }

  static Operand base_of(const Operand& address) {
    Operand base;
    base.name = address.name;
    return base;
  }

  void set_operands(const Statement& statement, const Opcode& opcode, Instruction& result) {
    unsigned to = 0, from = 0;
    const auto put_to = [&](const Operand& operand) {
      if (to == result.to.size()) refuse("so many results");
      if (operand.name != "_") {
        const Known known_place = known(operand.name, false);
        result.to[to] = known_place.place;
        if (known_place.wide) result.wide = static_cast<std::uint16_t>(result.wide | 1u << to);
      }
      ++to;
    };
    const auto put_from = [&](const Operand& operand, bool is_part = false) {
      if (from == result.from.size()) refuse("so many operands");
      const bool wide = (opcode.wide_constants >> std::min(from, 7u) & 1) != 0 &&
                        !(is_part && opcode.narrow_parts);
      const Known known_place = operand.kind == Operand::Kind::number ? constant(operand.bits, wide)
                                                                      : known(operand.name, wide);
      result.from[from] = known_place.place;
      if (known_place.wide) result.wide = static_cast<std::uint16_t>(result.wide | 16u << from);
      ++from;
    };
    bool first = true;
    for (const Operand& operand : statement.operands) {
      const bool is_result = first && opcode.has_result;
      first = false;
      switch (operand.kind) {
        case Operand::Kind::address:
          result.offset = operand.offset;
          if (operand.name.empty()) refuse("an address without a base");
          put_from(base_of(operand));
          break;
        case Operand::Kind::vector:
          result.count = static_cast<std::uint8_t>(operand.parts.size());
          for (const Operand& part : operand.parts) is_result ? put_to(part) : put_from(part, true);
          break;
        case Operand::Kind::pair:
          for (const Operand& part : operand.parts) put_to(part);
          break;
        default:
          is_result ? put_to(operand) : put_from(operand);
      }
    }
    if (result.count == 0) result.count = 1;
    // The scheduler finds the mask there.
    if (opcode.flow == Flow::warp_operation && from > 0) result.from.back() = result.from[from - 1];
    if (from < opcode.least_operands) {
      refuse("'" + std::string(statement.opcode) + "' with so few operands");
    }
    if ((result.wide & opcode.wide_mask) != opcode.wide) {
      refuse("'" + std::string(statement.opcode) + "' with registers of such widths");
    }
  }

  std::unique_ptr<Program> program_;
  const Module& module_;
  const Entry& entry_;
  int line_ = 0;
  std::map<std::string_view, Known> registers_;
  std::map<std::string_view, std::uint64_t> variables_;
  std::map<std::pair<std::uint64_t, bool>, Place> constants_;
};

}  // namespace

std::uint64_t Layout::add(const Variable& variable) {
  const std::uint64_t alignment = std::max<std::uint64_t>(variable.alignment, 1);
  const std::uint64_t first =
      (bytes + (parts.empty() ? 0 : kBetweenVariables) + alignment - 1) / alignment * alignment;
  parts.push_back({first, variable.bytes, variable.name});
  bytes = first + variable.bytes;
  return first;
}
bool Layout::holds(std::uint64_t offset, std::uint64_t count) const {
  return std::any_of(parts.begin(), parts.end(), [&](const Part& part) {
    return offset >= part.first && offset - part.first < part.bytes &&
           part.bytes - (offset - part.first) >= count;
  });
}

std::string Program::source_of(const Instruction& instruction) const {
  const std::string& text = module->text;
  std::size_t at = 0;
  for (int line = 1; line < instruction.line && at != std::string::npos; ++line) {
    at = text.find('\n', at);
    if (at != std::string::npos) ++at;
  }
  std::string found = at == std::string::npos ? "" : text.substr(at, text.find('\n', at) - at);
  std::replace(found.begin(), found.end(), '\t', ' ');
  found.erase(0, std::min(found.find_first_not_of(' '), found.size()));
  return module->name + ":" + std::to_string(instruction.line) + ": " + found;
}

std::unique_ptr<const Program> decode(const std::shared_ptr<const Module>& module,
                                      const Entry& entry) {
  return Decoder(module, entry).decode();
}

}  // namespace hetpipe::cuda::ptx
