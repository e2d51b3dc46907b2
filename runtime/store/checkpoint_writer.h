// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "runtime/store/checkpoint.h"

namespace hetpipe {

// Writes a run's checkpoints in a thread of its own, so that training does not wait for the disk.
// At most one waits while another is being written: a newer one takes its place.
class CheckpointWriter {
 public:
  struct Options {
    std::filesystem::path folder;
    int keep = 0;               // the newest so many; 0: all
    double retry_seconds = 60;  // how long the run's last one is tried again
  };
  explicit CheckpointWriter(Options options);
  ~CheckpointWriter();  // finishes what was given
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  enum class Which { one_of_many, last };
  // `make` is called in the writer's thread. The last one is never left out, and tried again for a
  // while when the disk is full.
  void write(Label label, std::function<Checkpoint()> make, Which which);

  enum class Fate { written, failed, left_out };
  struct Result {
    Label label = 0;
    Fate fate = Fate::written;
    std::string text;  // written: path; failed: why
    std::int64_t start_ns = 0;
    std::int64_t end_ns = 0;
    bool last = false;
  };
  // What has become of them since the last call, in order.
  std::vector<Result> take_results();
  // Nothing is being written or waits. Results may still be to be taken.
  bool idle() const;

 private:
  struct Job {
    Label label = 0;
    std::function<Checkpoint()> make;
    Which which = Which::one_of_many;
  };
  void run();
  Result write_now(const Job& job);

  Options options_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Job> waiting_;
  bool writing_ = false;
  bool over_ = false;
  std::vector<Result> results_;
  std::atomic<bool> results_there_ = false;
  std::thread thread_;
};

}  // namespace hetpipe
