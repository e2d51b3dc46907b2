// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launch/report/reported_run.h"

// Where each worker's time went.
namespace hetpipe {

// Seconds without evaluations, of one replica of a stage. What stands in a result is as there; of a
// run without one the traces tell less: then transfers and bubbles are one, and so are data and the
// rest.
struct DeviceTime {
  int virtual_worker = 0;
  int stage = 0;
  int replica = 0;
  std::string device;
  std::int64_t minibatches = 0;
  double total = 0;
  double forward = 0;
  double backward = 0;
  double update = 0;
  double bubble = 0;
  double transfer = 0;
  double server = 0;
  double data = 0;
  double unfed = 0;       // of what is left, on a device that works beside its host
  double evaluation = 0;  // beside the total
  std::optional<std::int64_t> peak_memory{};

  double compute() const { return forward + backward + update; }
  double other() const;       // what is left: the device unfed, checkpoints, the host itself
  std::string place() const;  // "virtual worker 0, stage 1 on n0:1"
};

// The parts of a total, in the order in which bars have them.
struct TimePart {
  const char* name;
  const char* look;  // a class of the style sheet
  double (*seconds)(const DeviceTime& time);
};
inline constexpr std::array kTimeParts{
    TimePart{"compute", "p-compute", [](const DeviceTime& t) { return t.compute(); }},
    TimePart{"bubble", "p-bubble", [](const DeviceTime& t) { return t.bubble; }},
    TimePart{"transfer", "p-transfer", [](const DeviceTime& t) { return t.transfer; }},
    TimePart{"server wait", "p-server", [](const DeviceTime& t) { return t.server; }},
    TimePart{"data", "p-data", [](const DeviceTime& t) { return t.data; }},
    TimePart{"other", "p-other", [](const DeviceTime& t) { return t.other(); }}};

// By virtual worker, stage, replica.
std::vector<DeviceTime> device_times(const ReportedRun& run);

// Of these, the part that took longest of what is not computing.
const TimePart& largest_wait(const DeviceTime& time);
// Who waited for other stages for the smallest share of its time: whatever else took its time is
// what these wait for. Of those that are alike in that, who waits least for servers, which also
// wait for other virtual workers. Null: nobody computed.
const DeviceTime* least_in_bubbles(const std::vector<DeviceTime>& times);

}  // namespace hetpipe
