// SPDX-License-Identifier: Apache-2.0
#include "partitioner/simulator/chrome_events.h"

#include "base/error.h"
#include "base/text.h"

namespace hetpipe {
namespace {

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += format("\\u%04x", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string metadata(const char* what, int process, int thread, const char* key,
                     const std::string& value) {
  return format("{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%d,\"tid\":%d,\"args\":{\"%s\":", what,
                process, thread, key) +
         value + "}}";
}

}  // namespace

const char* name_of(ActionKind kind) {
  switch (kind) {
    case ActionKind::forward:
      return "forward";
    case ActionKind::backward:
      return "backward";
    case ActionKind::weight_gradient:
      return "weight gradient";
    case ActionKind::recompute:
      return "recompute";
    case ActionKind::send:
      return "send";
    case ActionKind::receive:
      return "receive";
    case ActionKind::update:
      return "update";
    case ActionKind::push:
      return "push";
    case ActionKind::pull:
      return "pull";
    case ActionKind::evaluate:
      return "evaluate";
    case ActionKind::checkpoint:
      return "checkpoint";
  }
  ensure(false, "every kind of action has a name");
  return "";
}

void ChromeEvents::name_process(int process, const std::string& name) {
  add(metadata("process_name", process, 0, "name", quoted(name)));
}

void ChromeEvents::name_thread(int process, int thread, const std::string& name) {
  add(metadata("thread_name", process, thread, "name", quoted(name)));
}

void ChromeEvents::place_process(int process, int position) {
  add(metadata("process_sort_index", process, 0, "sort_index", std::to_string(position)));
}

void ChromeEvents::place_thread(int process, int thread, int position) {
  add(metadata("thread_sort_index", process, thread, "sort_index", std::to_string(position)));
}

void ChromeEvents::add(const Slice& slice, const std::string& more) {
  const Action& action = slice.action;
  add(
      format("{\"ph\":\"X\",\"name\":\"%s\",\"cat\":\"%s\",\"pid\":%d,\"tid\":%d,"
             "\"ts\":%.4f,\"dur\":%.4f,\"args\":{\"minibatch\":%lld,\"micro_batch\":%d,"
             "\"chunk\":%d%s}}",
             to_string(action).c_str(), name_of(action.kind), slice.process, slice.thread,
             slice.start * 1e6, (slice.end - slice.start) * 1e6,
             static_cast<long long>(action.minibatch), action.micro, action.chunk, more.c_str()));
}

void ChromeEvents::add(const std::string& event) {
  text_ += text_.empty() ? "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n" : ",\n";
  text_ += event;
}

std::string ChromeEvents::text() && {
  if (text_.empty()) text_ = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
  return std::move(text_) + "\n]}\n";
}

}  // namespace hetpipe
