// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

// A PTX file as it is written: variables, and entries with their statements. Nothing is resolved
// yet; see program.h.
namespace hetpipe::cuda::ptx {

// UserError: file, line, what is there, what to do.
[[noreturn]] void refuse_ptx(const std::string& name, int line, const std::string& what);

enum class Space : std::uint8_t { generic, param, shared, global, constant, local };

struct Operand {
  enum class Kind {
    name,     // a register, a variable, a label
    number,   // bits
    address,  // [base + offset], base a name or, if empty, nothing
    vector,   // {parts}
    pair      // first|second, of a shuffle
  };
  Kind kind = Kind::name;
  std::string_view name;
  std::uint64_t bits = 0;
  std::int64_t offset = 0;
  std::vector<Operand> parts;
};

struct Statement {
  int line = 0;
  std::string_view opcode;
  std::vector<Operand> operands;
  std::string_view guard;  // the predicate of @%p, or empty
  bool guard_negated = false;
};

struct Variable {
  std::string_view name;
  Space space = Space::global;
  std::size_t alignment = 1, bytes = 0;
  std::vector<std::byte> initial;  // empty or all
};

struct Parameter {
  std::string_view name;
  std::size_t offset = 0, bytes = 0;
};

struct Entry {
  std::string_view name;
  int line = 0;
  std::vector<Parameter> parameters;
  std::size_t parameter_bytes = 0;
  std::uint64_t max_threads = 1024;  // of .maxntid and .reqntid
  // Of the registers %NAME<COUNT>: the type, without its point, by NAME with its %.
  std::map<std::string_view, std::string_view> registers;
  std::vector<Variable> variables;  // shared and local
  std::vector<Statement> statements;
  std::map<std::string_view, std::size_t> labels;  // the statement behind
};

// Names are views of `text`.
struct Module {
  std::string name, text;
  std::vector<Variable> variables;
  std::vector<Entry> entries;
};

std::size_t bytes_of_type(std::string_view type);  // of u32, f16x2, pred, ...; 0 unknown

}  // namespace hetpipe::cuda::ptx
