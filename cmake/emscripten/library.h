// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the C++ library of Emscripten 3.1.6 lacks of C++20 and base/ and partitioner/ use: real
// numbers from and to characters, bit_cast, and <=> of strings and vectors. Included before
// everything else where that compiler builds (CMakeLists.txt). Results are those of GCC's library,
// to the last digit: both round correctly.
#include <version>
#if defined(_LIBCPP_VERSION) && _LIBCPP_VERSION < 15000
#include <charconv>
#include <compare>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace std {

// The digits at the start of the text: no sign but '-', neither spaces nor hexadecimal.
inline from_chars_result from_chars(const char* first, const char* last, double& value) {
  const char* at = first;
  const auto digits = [&] {
    const char* begin = at;
    while (at != last && *at >= '0' && *at <= '9') ++at;
    return at != begin;
  };
  const auto word = [&](const char* name) {
    const size_t length = strlen(name);
    return static_cast<size_t>(last - at) >= length && strncasecmp(at, name, length) == 0;
  };
  if (at != last && *at == '-') ++at;
  if (word("infinity") || word("inf") || word("nan")) {
    at += word("infinity") ? 8 : 3;
  } else {
    bool any = digits();
    if (at != last && *at == '.') {
      ++at;
      if (!digits() && !any) return {first, errc::invalid_argument};
      any = true;
    }
    if (!any) return {first, errc::invalid_argument};
    if (at != last && (*at == 'e' || *at == 'E')) {
      const char* mantissa = at++;
      if (at != last && (*at == '-' || *at == '+')) ++at;
      if (!digits()) at = mantissa;
    }
  }
  const string text(first, at);
  const double read = strtod(text.c_str(), nullptr);
  const bool named = text.find_first_of("iInN") != string::npos;
  const bool none = text.find_first_of("123456789") >= text.find_first_of("eE");
  if (!named && (read - read != 0 || (read == 0 && !none))) return {at, errc::result_out_of_range};
  value = read;
  return {at, errc{}};
}

// The fewest digits that read back as the same number, in whichever form is shorter: 1e+20, 0.25.
inline to_chars_result to_chars(char* first, char* last, double value) {
  char scientific[40];
  for (int digits = 0; digits <= 16; ++digits) {
    snprintf(scientific, sizeof scientific, "%.*e", digits, value);
    if (strtod(scientific, nullptr) == value) break;
  }
  string text = scientific;
  if (const char* exponent = strchr(scientific, 'e'); exponent != nullptr) {
    const char* point = strchr(scientific, '.');
    const int digits = point == nullptr ? 0 : static_cast<int>(exponent - point) - 1;
    const int places = digits - atoi(exponent + 1);  // behind the point
    string fixed(static_cast<size_t>(snprintf(nullptr, 0, "%.*f", places > 0 ? places : 0, value)),
                 '\0');
    snprintf(fixed.data(), fixed.size() + 1, "%.*f", places > 0 ? places : 0, value);
    if (fixed.size() <= text.size()) text = fixed;
  }
  if (static_cast<size_t>(last - first) < text.size()) return {last, errc::value_too_large};
  memcpy(first, text.data(), text.size());
  return {first + text.size(), errc{}};
}

template <class To, class From>
constexpr To bit_cast(const From& from) noexcept {
  return __builtin_bit_cast(To, from);
}

inline strong_ordering operator<=>(const string& a, const string& b) { return a.compare(b) <=> 0; }

template <class T>
auto operator<=>(const vector<T>& a, const vector<T>& b) -> decltype(a.front() <=> b.front()) {
  for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
    if (const auto order = a[i] <=> b[i]; order != 0) return order;
  }
  return a.size() <=> b.size();
}

}  // namespace std
#endif
