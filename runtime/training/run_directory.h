// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "base/file_descriptor.h"

// The files of one run:
//   config.toml cluster.toml profile.toml plan.toml   its input
//   train.log                                         its messages
//   status.json                                       how far it is
//   result.json                                       its result, once it has ended
//   checkpoints/ trace/                               its output
//   lock                                              names the process that uses the directory
// The first rank owns it; other ranks get path() from it.
namespace hetpipe {

// A new run does not overwrite an earlier one; one that resumes continues it.
enum class RunStart { fresh, resume };

// Tries the lock that a run holds, on an open file: 0, or errno (EAGAIN or EACCES: another process
// holds it). It ends when the file is closed.
int try_lock(int file);

// Whether a process holds that lock on the file. False where there is no such file, and between
// hosts where the file system does not pass locks on.
bool is_locked(const std::filesystem::path& file);

class RunDirectory {
 public:
  // "runs/lenet-20260131-154500" (local time).
  static std::filesystem::path default_path(const std::string& model);

  // Before the work that leads to it, and without touching anything: what is certain to fail in
  // the constructor. UserError as there.
  static void check(const std::filesystem::path& path, RunStart start);

  // Creates the directory and its folders where missing, and locks it. UserError: cannot be created
  // or written; used by another run (host and process named); holds an earlier run and `start` is
  // fresh.
  RunDirectory(std::filesystem::path path, RunStart start);

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path config() const { return path_ / "config.toml"; }
  std::filesystem::path cluster() const { return path_ / "cluster.toml"; }
  std::filesystem::path profile() const { return path_ / "profile.toml"; }
  std::filesystem::path plan() const { return path_ / "plan.toml"; }
  std::filesystem::path status() const { return path_ / "status.json"; }
  std::filesystem::path result() const { return path_ / "result.json"; }
  std::filesystem::path log() const { return path_ / "train.log"; }
  std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }

  // Where a run that starts from this label (0: from nothing), or so many minibatches inside of the
  // wave behind it, writes its traces, created if need be; those of the runs before it stay.
  // UserError if it cannot be created.
  std::filesystem::path create_trace_folder(std::int64_t from, int inside = 0) const;

 private:
  void lock();
  [[noreturn]] void refuse_locked(int file) const;

  std::filesystem::path path_;
  OpenFile directory_;
  OpenFile lock_;
};

}  // namespace hetpipe
