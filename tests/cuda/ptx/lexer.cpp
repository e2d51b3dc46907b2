// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda/ptx/lexer.h"

#include <cctype>

#include "tests/cuda/ptx/module.h"

namespace hetpipe::cuda::ptx {
namespace {

bool starts_word(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$' || c == '%';
}
bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }
bool in_word(char c) { return starts_word(c) || is_digit(c) || c == '.'; }

class Lexer {
 public:
  Lexer(const std::string& name, std::string_view source) : name_(name), source_(source) {}

  std::vector<Token> read() {
    while (skip_blanks()) tokens_.push_back(next());
    tokens_.push_back({TokenKind::end, {}, line_});
    return std::move(tokens_);
  }

 private:
  char at(std::size_t ahead = 0) const {
    return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0';
  }
  [[noreturn]] void refuse(const std::string& what) const { refuse_ptx(name_, line_, what); }

  // Whether something follows.
  bool skip_blanks() {
    for (;;) {
      if (at_ == source_.size()) return false;
      if (at() == '\n') ++line_;
      if (std::isspace(static_cast<unsigned char>(at())) != 0) {
        ++at_;
      } else if (at() == '/' && at(1) == '/') {
        at_ = std::min(source_.find('\n', at_), source_.size());
      } else if (at() == '/' && at(1) == '*') {
        skip_long_comment();
      } else {
        return true;
      }
    }
  }
  void skip_long_comment() {
    const std::size_t end = source_.find("*/", at_ + 2);
    if (end == std::string_view::npos) refuse("a comment without an end");
    for (; at_ < end + 2; ++at_) line_ += at() == '\n' ? 1 : 0;
  }

  Token next() {
    const std::size_t first = at_;
    const auto token = [&](TokenKind kind) {
      return Token{kind, source_.substr(first, at_ - first), line_};
    };
    if (at() == '"') {
      at_ = source_.find('"', first + 1);
      if (at_ == std::string_view::npos) refuse("a string without an end");
      ++at_;
      return {TokenKind::string, source_.substr(first + 1, at_ - first - 2), line_};
    }
    if (is_digit(at())) {
      while (in_word(at())) ++at_;
      return token(TokenKind::number);
    }
    if (starts_word(at()) || at() == '.') {
      const bool directive = at() == '.';
      ++at_;
      while (in_word(at())) ++at_;
      return token(directive ? TokenKind::directive : TokenKind::word);
    }
    if (std::string_view(",;:()[]{}<>@!|+-=").find(at()) == std::string_view::npos) {
      refuse(std::string("the character '") + at() + "'");
    }
    ++at_;
    return token(TokenKind::punctuation);
  }

  const std::string& name_;
  std::string_view source_;
  std::size_t at_ = 0;
  int line_ = 1;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> read_tokens(const std::string& name, std::string_view source) {
  return Lexer(name, source).read();
}

}  // namespace hetpipe::cuda::ptx
