// SPDX-License-Identifier: Apache-2.0
#include "runtime/store/checkpoint_writer.h"

#include <chrono>
#include <utility>

#include "base/blocked_signals.h"
#include "base/error.h"
#include "base/time.h"

namespace hetpipe {
namespace {

constexpr std::chrono::milliseconds kBetweenTries{500};

}  // namespace

CheckpointWriter::CheckpointWriter(Options options) : options_(std::move(options)) {
  const BlockedSignals in_the_thread;
  thread_ = std::thread([this] { run(); });
}

CheckpointWriter::~CheckpointWriter() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void CheckpointWriter::write(Label label, std::size_t bytes, std::function<Checkpoint()> make,
                             Which which) {
  const std::lock_guard lock(mutex_);
  while (!waiting_.empty() && waiting_bytes_ + bytes > options_.waiting_bytes) {
    results_.push_back({.label = waiting_.front().label, .fate = Fate::left_out, .text = {}});
    results_there_ = true;
    waiting_bytes_ -= waiting_.front().bytes;
    waiting_.pop_front();
  }
  waiting_.push_back({label, bytes, std::move(make), which});
  waiting_bytes_ += bytes;
  changed_.notify_one();
}

std::vector<CheckpointWriter::Result> CheckpointWriter::take_results() {
  if (!results_there_) return {};  // asked in every poll
  const std::lock_guard lock(mutex_);
  results_there_ = false;
  return std::exchange(results_, {});
}

bool CheckpointWriter::idle() const {
  const std::lock_guard lock(mutex_);
  return waiting_.empty() && !writing_;
}

void CheckpointWriter::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return !waiting_.empty() || over_; });
    if (waiting_.empty()) return;
    const Job job = std::move(waiting_.front());
    waiting_.pop_front();
    waiting_bytes_ -= job.bytes;
    writing_ = true;
    lock.unlock();
    Result result = write_now(job);
    lock.lock();
    writing_ = false;
    results_.push_back(std::move(result));
    results_there_ = true;
  }
}

CheckpointWriter::Result CheckpointWriter::write_now(const Job& job) {
  Result result{.label = job.label, .text = {}, .last = job.which == Which::last};
  result.start_ns = now_ns();
  const std::filesystem::path path = options_.folder / checkpoint_name(job.label);
  const std::int64_t give_up = result.start_ns + to_ns(options_.retry_seconds);
  for (;;) {
    try {
      write_checkpoint(path, job.make());
      result.text = path.string();
      if (options_.keep > 0) prune_checkpoints(options_.folder, options_.keep);
      break;
    } catch (const NumericalError& error) {  // waiting does not heal it
      result.fate = Fate::failed;
      result.text = error.what();
      result.code = ExitCode::numerical;
      break;
    } catch (const std::exception& error) {  // no space, no memory
      if (!result.text.empty()) break;       // written; what could not be removed is no loss
      if (!result.last || now_ns() > give_up) {
        result.fate = Fate::failed;
        result.text = error.what();
        result.code = ExitCode::system;
        break;
      }
    }
    std::this_thread::sleep_for(kBetweenTries);
  }
  result.end_ns = now_ns();
  return result;
}

}  // namespace hetpipe
