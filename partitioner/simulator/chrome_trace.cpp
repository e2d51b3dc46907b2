// SPDX-License-Identifier: Apache-2.0
#include "partitioner/simulator/chrome_trace.h"

#include <set>

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

std::string metadata(const char* what, int process, int thread, const std::string& name) {
  return format("{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%d,\"tid\":%d,\"args\":{\"name\":", what,
                process, thread) +
         quoted(name) + "}}";
}

const char* category(ActionKind kind) {
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

}  // namespace

std::string chrome_trace(const Simulation& simulation, const Cluster& cluster) {
  std::string text = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
  bool first = true;
  const auto add = [&](const std::string& event) {
    text += first ? "\n" : ",\n";
    text += event;
    first = false;
  };
  std::set<int> named;
  std::vector<int> process;  // [row]
  for (const SimulatedStage& stage : simulation.stages) {
    const auto node = cluster.find_node(stage.device.node);
    ensure(node.has_value(), "a simulated device is one of the cluster");
    process.push_back(node->value);
    if (named.insert(node->value).second) {
      add(metadata("process_name", node->value, 0, stage.device.node));
    }
    add(metadata(
        "thread_name", node->value, stage.device.index,
        format("%s %s, worker %d stage %d", to_string(stage.device).c_str(),
               cluster.kind_of(stage.device).name.c_str(), stage.virtual_worker, stage.stage)));
  }
  for (const SimulatedEvent& event : simulation.events) {
    if (event.end <= event.start) continue;
    const auto row = static_cast<std::size_t>(event.row);
    const SimulatedStage& stage = simulation.stages[row];
    const Action& action = event.action;
    add(
        format("{\"ph\":\"X\",\"name\":\"%s\",\"cat\":\"%s\",\"pid\":%d,\"tid\":%d,"
               "\"ts\":%.4f,\"dur\":%.4f,\"args\":{\"minibatch\":%lld,\"micro_batch\":%d,"
               "\"chunk\":%d,\"virtual_worker\":%d,\"stage\":%d,\"replica\":%d}}",
               to_string(action).c_str(), category(action.kind), process[row], stage.device.index,
               event.start * 1e6, (event.end - event.start) * 1e6,
               static_cast<long long>(action.minibatch), action.micro, action.chunk,
               stage.virtual_worker, stage.stage, stage.replica));
  }
  return text + "\n]}\n";
}

}  // namespace hetpipe
