// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

// Whole files. A missing or unreadable file is the user's mistake (UserError naming the path and
// what to do); a failed write is a system failure (SystemError).
namespace hetpipe {

inline constexpr std::size_t kLargestWholeFile = std::size_t{1} << 30;  // bytes
// A regular file: a pipe or a device might never end, so it is refused before it is opened for
// good, and a file of more than `largest` bytes before it is read.
std::string read_file(const std::filesystem::path& path, std::size_t largest = kLargestWholeFile);

// UserError as of read_file(), for readers of their own.
void check_regular_file(const std::filesystem::path& path);

// Writes to a temporary name next to it (base/temporary_file.h), syncs it, renames, syncs the
// folder: readers see the old or the new text, and after a failure or a signal no temporary file
// stays.
void write_file(const std::filesystem::path& path, std::string_view text);
void write_file(const std::filesystem::path& path, std::initializer_list<std::string_view> pieces);
void write_file(const std::filesystem::path& path, std::span<const std::string_view> pieces);

// The same without syncing, for what is soon written again: after a loss of power the file may be
// old, or empty.
enum class Durable { no, yes };
void write_file(const std::filesystem::path& path, std::string_view text, Durable durable);

}  // namespace hetpipe
