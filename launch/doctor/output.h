// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/fields.h"
#include "base/file_descriptor.h"
#include "base/temporary_file.h"
#include "runtime/training/run_directory.h"

// Whether a run can write its files to a folder: tries it, and leaves no files behind.
namespace hetpipe {

// What rank 0 finds.
struct OutputFacts {
  std::string asked;        // --output
  std::string tried;        // the folder tried in: that one, or the nearest above it that exists
  std::string file;         // exists while the others look
  std::string unusable;     // why it cannot be created or written (UserError's text); else empty
  std::string earlier_run;  // why a new run would be refused there; else empty
  std::string file_system;  // "ext4"; empty: not known
  double free = 0;          // bytes
  double written = 0;       // bytes of the trial
  double write_seconds = 0;
  double sync_seconds = 0;
  std::string write_failure;  // why not all of the trial could be written
  std::string lock_failure;   // why the file could not be locked
  bool lock_holds = true;     // a second lock on it was refused
};
constexpr auto fields_of(Type<OutputFacts>) {
  return fields<&OutputFacts::asked, &OutputFacts::tried, &OutputFacts::file,
                &OutputFacts::unusable, &OutputFacts::earlier_run, &OutputFacts::file_system,
                &OutputFacts::free, &OutputFacts::written, &OutputFacts::write_seconds,
                &OutputFacts::sync_seconds, &OutputFacts::write_failure, &OutputFacts::lock_failure,
                &OutputFacts::lock_holds>;
}

// What every other rank finds there.
struct OutputSeen {
  bool visible = true;
  std::string unwritable;    // why it cannot create a file there
  std::string lock_failure;  // why it could not request the lock
  bool lock_holds = true;    // and was refused the lock, as it should be
};
constexpr auto fields_of(Type<OutputSeen>) {
  return fields<&OutputSeen::visible, &OutputSeen::unwritable, &OutputSeen::lock_failure,
                &OutputSeen::lock_holds>;
}

// Rank 0's trial: a file of its own that it writes, syncs, locks and, when this goes, removes.
class OutputTrial {
 public:
  explicit OutputTrial(const std::string& output);
  const OutputFacts& facts() const { return facts_; }

 private:
  void write();
  void lock();

  OutputFacts facts_;
  TemporaryFile trial_;
  OpenFile file_;
};

// While rank 0 holds its trial.
OutputSeen look_at_output(const OutputFacts& facts, int rank);

}  // namespace hetpipe
