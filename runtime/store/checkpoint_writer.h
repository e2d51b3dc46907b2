// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "runtime/store/checkpoint.h"

namespace hetpipe {

// Writes a run's checkpoints in a thread of its own, so that training does not wait for the disk.
// Those that wait are bounded by their memory: beyond it, a newer one takes the place of the oldest
// that waits.
class CheckpointWriter {
 public:
  struct Options {
    std::filesystem::path folder;
    int keep = 0;               // the newest so many; 0: all
    double retry_seconds = 60;  // how long the run's last one is tried again
    std::size_t waiting_bytes = std::size_t{1} << 30;
  };
  explicit CheckpointWriter(Options options);
  ~CheckpointWriter();  // finishes what was given
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  enum class Which { one_of_many, last };
  // `make` is called in the writer's thread; until then it holds so many bytes. The last one is
  // never left out, and tried again for a while when the disk is full.
  void write(Label label, std::size_t bytes, std::function<Checkpoint()> make, Which which);

  enum class Fate { written, failed, left_out };
  struct Result {
    Label label = 0;
    Fate fate = Fate::written;
    std::string text;                // written: path; failed: why ...
    ExitCode code = ExitCode::done;  // ... and what a run ends with that needs it
    std::int64_t start_ns = 0;
    std::int64_t end_ns = 0;
    bool last = false;
  };
  // Their results since the last call, in order.
  std::vector<Result> take_results();
  // Nothing is being written or waits. There may still be results to take.
  bool idle() const;

 private:
  struct Job {
    Label label = 0;
    std::size_t bytes = 0;
    std::function<Checkpoint()> make;
    Which which = Which::one_of_many;
  };
  void run();
  Result write_now(const Job& job);

  Options options_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> waiting_;
  std::size_t waiting_bytes_ = 0;
  bool writing_ = false;
  bool over_ = false;
  std::vector<Result> results_;
  std::atomic<bool> results_there_ = false;
  std::thread thread_;
};

}  // namespace hetpipe
