// SPDX-License-Identifier: Apache-2.0
#include "launch/plan/planning_progress.h"

#include <unistd.h>

#include <cstdio>
#include <memory>

#include "base/log.h"
#include "base/text.h"
#include "base/time.h"

namespace hetpipe {
namespace {

constexpr double kRedrawn = 0.2;            // s
constexpr double kLines = 10;               // s
constexpr std::size_t kManyDevices = 1000;  // a step for these may take a minute

struct Planning {
  bool terminal = ::isatty(STDERR_FILENO) == 1;
  Log log{stderr, stderr, terminal ? Log::Terminal::yes : Log::Terminal::no};
  std::int64_t start = now_ns();
  bool first = true;
  std::int64_t said = start;
};

}  // namespace

std::function<void(const std::string&)> planning_progress(std::size_t devices) {
  const auto planning = std::make_shared<Planning>();
  return [planning, devices](const std::string& what) {
    const std::int64_t now = now_ns();
    const bool at_once = planning->first && (planning->terminal || devices >= kManyDevices);
    planning->first = false;
    const double pause = planning->terminal ? kRedrawn : kLines;
    if (!at_once && seconds_between(planning->said, now) < pause) return;
    planning->said = now;
    const std::string text =
        format("planning for %zu devices: %s (%s so far)", devices, what.c_str(),
               format_seconds(seconds_between(planning->start, now)).c_str());
    if (planning->terminal) {
      planning->log.progress(text);
    } else {
      planning->log.line(text);
    }
  };
}

}  // namespace hetpipe
