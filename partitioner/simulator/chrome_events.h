// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "partitioner/schedule/schedule.h"

namespace hetpipe {

const char* name_of(ActionKind kind);  // "forward", ...

// JSON of the Trace Event Format, which Perfetto (ui.perfetto.dev), chrome://tracing and viztracer
// open, event by event.
class ChromeEvents {
 public:
  void name_process(int process, const std::string& name);
  void name_thread(int process, int thread, const std::string& name);
  void place_process(int process, int position);  // among the others
  void place_thread(int process, int thread, int position);

  // A complete event ("X"), written in microseconds. args hold minibatch, micro_batch, chunk, and
  // `more`: ",\"key\":value...".
  struct Slice {
    Action action{};
    int process = 0;
    int thread = 0;
    double start = 0;  // s
    double end = 0;
  };
  void add(const Slice& slice, const std::string& more);

  std::string text() &&;  // the document

 private:
  void add(const std::string& event);
  std::string text_;
};

}  // namespace hetpipe
