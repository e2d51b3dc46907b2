// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda/ptx/parser.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "tests/cuda/ptx/lexer.h"

namespace hetpipe::cuda::ptx {

void refuse_ptx(const std::string& name, int line, const std::string& what) {
  throw UserError(name + ":" + std::to_string(line),
                  what +
                      " (the interpreter of PTX does not know it). Add it to tests/cuda/ptx, "
                      "with a test.");
}

std::size_t bytes_of_type(std::string_view type) {
  if (type == "pred") return 1;
  const std::size_t digits = type.find_first_of("0123456789");
  if (digits == std::string_view::npos) return 0;
  const std::string_view bits = type.substr(digits);
  return bits == "8"                      ? 1
         : bits == "16"                   ? 2
         : bits == "32" || bits == "16x2" ? 4
         : bits == "64"                   ? 8
                                          : 0;
}

namespace {

class Parser {
 public:
  explicit Parser(Module& module)
      : module_(module), tokens_(read_tokens(module.name, module.text)) {}

  void parse() {
    while (here().kind != TokenKind::end) {
      const std::string_view word = here().text;
      if (word == ".version" || word == ".target" || word == ".address_size") {
        skip_line();
      } else if (word == ".visible" || word == ".weak" || word == ".extern") {
        ++at_;
      } else if (word == ".entry") {
        ++at_;
        parse_entry();
      } else if (is_space(word)) {
        module_.variables.push_back(parse_variable());
      } else {
        refuse("'" + std::string(word) + "' outside of entries");
      }
    }
  }

 private:
  const Token& here() const { return tokens_[at_]; }
  bool is(std::string_view text) const {
    return here().text == text && here().kind != TokenKind::string;
  }
  [[noreturn]] void refuse(const std::string& what) const {
    refuse_ptx(module_.name, here().line, what);
  }
  bool accept(std::string_view text) {
    if (!is(text)) return false;
    ++at_;
    return true;
  }
  void expect(std::string_view text) {
    if (!accept(text)) {
      refuse("'" + std::string(here().text) + "' where '" + std::string(text) + "' is expected");
    }
  }
  std::string_view take(TokenKind kind, const char* what) {
    if (here().kind != kind) refuse("'" + std::string(here().text) + "' instead of " + what);
    return tokens_[at_++].text;
  }
  void skip_line() {
    const int line = here().line;
    while (here().kind != TokenKind::end && here().line == line) ++at_;
  }

  static bool is_space(std::string_view word) {
    return word == ".shared" || word == ".global" || word == ".const" || word == ".local";
  }

  // 12, 0x1f, 0f3F800000 or 0d..., with any sign: the bits.
  std::uint64_t parse_number() {
    const bool negative = accept("-");
    const std::string text(take(TokenKind::number, "a number"));
    const bool is_float = text.size() > 2 && text[0] == '0' && text.find_first_of("fFdD") == 1;
    std::size_t used = 0;
    const std::string digits = is_float ? text.substr(2) : text;
    const std::uint64_t bits = std::stoull(digits, &used, is_float ? 16 : 0);
    const bool rest_is_u = digits.substr(used) == "U";
    if ((used != digits.size() && !rest_is_u) || (is_float && negative)) {
      refuse("the number '" + text + "'");
    }
    return negative ? ~bits + 1 : bits;
  }

  // .SPACE [.align N] .TYPE NAME[COUNT] [= {...}];
  Variable parse_variable() {
    Variable variable;
    const std::string_view space = take(TokenKind::directive, "a space");
    variable.space = space == ".shared"   ? Space::shared
                     : space == ".global" ? Space::global
                     : space == ".const"  ? Space::constant
                                          : Space::local;
    if (accept(".align")) variable.alignment = parse_number();
    const std::size_t size = parse_type();
    variable.alignment = std::max(variable.alignment, size);
    variable.name = take(TokenKind::word, "a name");
    variable.bytes = size;
    if (accept("[")) {
      if (is("]")) refuse("shared memory whose size the launch gives");
      variable.bytes *= parse_number();
      expect("]");
    }
    if (accept("=")) parse_initial(variable, size);
    expect(";");
    return variable;
  }
  void parse_initial(Variable& variable, std::size_t size) {
    expect("{");
    do {
      const std::uint64_t bits = parse_number();
      for (std::size_t b = 0; b < size; ++b) {
        variable.initial.push_back(static_cast<std::byte>(bits >> (8 * b)));
      }
    } while (accept(","));
    expect("}");
    if (variable.initial.size() > variable.bytes) refuse("more numbers than the variable holds");
    variable.initial.resize(variable.bytes);
  }
  std::size_t parse_type() {
    const std::string_view type = take(TokenKind::directive, "a type");
    const std::size_t bytes = bytes_of_type(type.substr(1));
    if (bytes == 0) refuse("the type '" + std::string(type) + "'");
    return bytes;
  }

  void parse_entry() {
    Entry entry;
    entry.line = here().line;
    entry.name = take(TokenKind::word, "an entry's name");
    expect("(");
    while (!accept(")")) {
      parse_parameter(entry);
      accept(",");
    }
    while (!is("{")) parse_limit(entry);
    expect("{");
    parse_body(entry);
    module_.entries.push_back(std::move(entry));
  }
  // .param [.align N] .TYPE [.ptr [.SPACE] [.align N]] NAME[BYTES]
  void parse_parameter(Entry& entry) {
    expect(".param");
    std::size_t alignment = 1;
    if (accept(".align")) alignment = parse_number();
    const std::size_t size = parse_type();
    alignment = std::max(alignment, size);
    if (accept(".ptr")) {
      if (is(".global") || is(".shared")) ++at_;
      if (accept(".align")) parse_number();
    }
    Parameter parameter{take(TokenKind::word, "a parameter's name"), 0, size};
    if (accept("[")) {
      parameter.bytes *= parse_number();
      expect("]");
    }
    parameter.offset = (entry.parameter_bytes + alignment - 1) / alignment * alignment;
    entry.parameter_bytes = parameter.offset + parameter.bytes;
    entry.parameters.push_back(parameter);
  }
  void parse_limit(Entry& entry) {
    const std::string_view limit = take(TokenKind::directive, "a directive of an entry");
    std::uint64_t product = 1;
    do product *= parse_number();
    while (accept(","));
    if (limit == ".maxntid" || limit == ".reqntid") {
      entry.max_threads = product;
    } else if (limit != ".minnctapersm" && limit != ".maxnreg") {
      refuse("the directive '" + std::string(limit) + "'");
    }
  }

  // Blocks of inline assembly may stand in braces of their own; registers of theirs are the
  // entry's.
  void parse_body(Entry& entry) {
    for (int depth = 1; depth > 0;) {
      if (here().kind == TokenKind::end) refuse("an entry without an end");
      if (accept("{")) {
        ++depth;
      } else if (accept("}")) {
        --depth;
      } else if (accept(".reg")) {
        parse_registers(entry);
      } else if (is_space(here().text)) {
        entry.variables.push_back(parse_variable());
      } else if (accept(".pragma")) {
        take(TokenKind::string, "a pragma");
        expect(";");
      } else if (here().kind == TokenKind::word && tokens_[at_ + 1].text == ":") {
        entry.labels[here().text] = entry.statements.size();
        at_ += 2;
      } else if (!accept(";")) {
        entry.statements.push_back(parse_statement());
      }
    }
  }
  void parse_registers(Entry& entry) {
    const std::string_view type = take(TokenKind::directive, "a type").substr(1);
    do {
      const std::string_view name = take(TokenKind::word, "a register");
      const auto [at, is_new] = entry.registers.emplace(name, type);
      if (!is_new && at->second != type) refuse("two kinds of '" + std::string(name) + "'");
      if (accept("<")) {
        parse_number();
        expect(">");
      }
    } while (accept(","));
    expect(";");
  }

  Statement parse_statement() {
    Statement statement;
    statement.line = here().line;
    if (accept("@")) {
      statement.guard_negated = accept("!");
      statement.guard = take(TokenKind::word, "a predicate");
    }
    statement.opcode = take(TokenKind::word, "an instruction");
    while (!accept(";")) {
      statement.operands.push_back(parse_operand());
      if (!is(";")) expect(",");
    }
    return statement;
  }
  Operand parse_operand() {
    Operand operand;
    if (accept("{")) {
      operand.kind = Operand::Kind::vector;
      do operand.parts.push_back(parse_operand());
      while (accept(","));
      expect("}");
    } else if (accept("[")) {
      operand.kind = Operand::Kind::address;
      if (here().kind == TokenKind::word) operand.name = tokens_[at_++].text;
      if (accept("+") || operand.name.empty()) {
        operand.offset = static_cast<std::int64_t>(parse_number());
      }
      expect("]");
    } else if (here().kind == TokenKind::word) {
      operand.name = tokens_[at_++].text;
      if (accept("|")) {
        const Operand first = operand;
        operand.kind = Operand::Kind::pair;
        operand.parts = {first, parse_operand()};
      }
    } else {
      operand.kind = Operand::Kind::number;
      operand.bits = parse_number();
    }
    return operand;
  }

  Module& module_;
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
};

}  // namespace

std::unique_ptr<const Module> parse_module(std::string name, std::string text) {
  auto module = std::make_unique<Module>();
  module->name = std::move(name);
  module->text = std::move(text);
  Parser(*module).parse();
  return module;
}

std::unique_ptr<const Module> read_module(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    throw UserError(path, "no such file (PTX is read from it). Build the PTX of the kernels.");
  return parse_module(path.substr(path.rfind('/') + 1),
                      std::string(std::istreambuf_iterator<char>(file), {}));
}

}  // namespace hetpipe::cuda::ptx
