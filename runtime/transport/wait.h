// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "runtime/transport/transport.h"

namespace hetpipe {

// Each sleep is a share of what has been waited already, so that a message is noticed late by that
// share at most, and long waits cost next to nothing: a 16th, or a 48th where a device stands still
// meanwhile.
enum class Alertness { usual = 16, close = 48 };

// Polls until `ready()`: runs `poll` (transport progress and whatever else this rank serves), then
// sleeps for a share of what has been waited already, from a microsecond up to a millisecond, so
// that waiting ranks leave the cores to those that work. After `timeout_seconds`: SystemError
// "waited 60.0 s for <what>". `what` is only called then. Returns seconds waited.
double wait_until(const std::function<bool()>& ready, const std::function<void()>& poll,
                  double timeout_seconds, const std::function<std::string()>& what,
                  Alertness alertness = Alertness::usual);

// Sleeps (polling) until the monotonic clock passes deadline_ns; precise to some 10 us without
// burning the core.
void wait_until_time(std::int64_t deadline_ns, const std::function<void()>& poll);

}  // namespace hetpipe
