// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdio>
#include <mutex>
#include <string>
#include <string_view>

namespace hetpipe {

// What a run says, readable by its other threads while it runs.
class Said {
 public:
  Said() {
    cookie_io_functions_t functions = {};
    functions.write = [](void* self, const char* text, std::size_t bytes) {
      static_cast<Said*>(self)->add(std::string_view(text, bytes));
      return static_cast<ssize_t>(bytes);
    };
    file_ = ::fopencookie(this, "w", functions);
  }
  ~Said() { std::fclose(file_); }
  Said(const Said&) = delete;
  Said& operator=(const Said&) = delete;

  std::FILE* file() { return file_; }
  int waves() const { return waves_; }  // whose line is there
  bool says(std::string_view words) const {
    const std::lock_guard lock(mutex_);
    return text_.find(words) != text_.npos;
  }
  std::string text() const {
    const std::lock_guard lock(mutex_);
    return text_;
  }

 private:
  void add(std::string_view text) {
    if (text.starts_with("wave ")) ++waves_;
    const std::lock_guard lock(mutex_);
    text_ += text;
  }

  std::FILE* file_ = nullptr;
  mutable std::mutex mutex_;
  std::string text_;
  std::atomic<int> waves_{0};
};

}  // namespace hetpipe
