// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

// Failures have types; the type decides who has to act and with which code a rank exits.
namespace hetpipe {

enum class ExitCode : int { done = 0, user = 2, system = 3, numerical = 4, stopped = 75 };

// One problem for the user: its place ("file:line", "--option" or empty) and one sentence
// "what (why it is one). What to do."
struct Problem {
  std::string where;
  std::string text;
};

// A mistake of the user (option, config, plan, data). Carries all of a file's problems at once.
// what() holds one line per problem. Exit code 2.
class UserError : public std::runtime_error {
 public:
  explicit UserError(std::vector<Problem> problems);
  UserError(std::string where, std::string text);
  const std::vector<Problem>& problems() const { return problems_; }

 private:
  std::vector<Problem> problems_;
};

// Collects problems while a file is read, then throws them together.
class Problems {
 public:
  void add(std::string where, std::string text);
  bool empty() const { return problems_.empty(); }
  const std::vector<Problem>& list() const { return problems_; }
  void throw_if_any();

 private:
  std::vector<Problem> problems_;
};

// System failure: a library or the operating system returned an error. Exit code 3.
class SystemError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A device or its emulated budget is out of memory: the message carries the ledger. Exit code 3.
class OutOfMemory : public SystemError {
 public:
  using SystemError::SystemError;
};

// A loss or weight became NaN or infinite: step and layer. Exit code 4.
class NumericalError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// An internal error: prints expression, place and message, then aborts. Active in release too.
[[noreturn]] void ensure_failed(std::string_view message, const std::source_location& where);

inline void ensure(bool condition, std::string_view message,
                   const std::source_location& where = std::source_location::current()) {
  if (!condition) [[unlikely]] {
    ensure_failed(message, where);
  }
}

}  // namespace hetpipe
