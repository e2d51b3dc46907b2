// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

// Files that are to be gone when this process is, however it ends but by SIGKILL: written beside
// the file that they are to become, or of use for a while. One place knows their names.
namespace hetpipe {

// "PATH.tmp.PID", where the process's new version of a file is written.
std::string temporary_name(const std::string& path);

// Owns a file's name. The file itself is created by create(), or by somebody else under this name.
class TemporaryFile {
 public:
  TemporaryFile() = default;
  explicit TemporaryFile(std::string path);  // a signal from now on removes it
  ~TemporaryFile();                          // removes it
  TemporaryFile(TemporaryFile&& other) noexcept;
  TemporaryFile& operator=(TemporaryFile&& other) noexcept;

  // Opens a new file of this name, in place of one that a killed process of the same number left:
  // no link is followed. -1 and errno where it cannot.
  int create() const;
  // Gives the file the other name, in place of one that has it. false and errno where it cannot;
  // it is still a temporary one then.
  bool becomes(const std::string& path);

  const std::string& path() const { return path_; }

 private:
  void forget();

  std::string path_;  // empty: none
  int slot_ = -1;     // among those that a signal removes; -1: it has none
};

// Removes all that are owned now, for a process that ends without its destructors. May be called
// in a signal handler.
void remove_temporary_files() noexcept;

// From now on signals that would end this process remove them first. Signals that are ignored or
// handled stay so.
void remove_temporary_files_on_signals();

}  // namespace hetpipe
