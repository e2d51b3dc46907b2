// SPDX-License-Identifier: Apache-2.0
// Rank 0 fails alone while the ranks start, and the others are in an exchange with it. Nobody waits
// for the time after which a silent rank counts as lost.
#include "base/error.h"
#include "base/log.h"
#include "launch/launcher/start_watch.h"
#include "runtime/transport/mpi.h"

namespace {
constexpr double kOutlives = 3600;  // s; longer than this test may take
}

int main(int argc, char** argv) {
  using namespace hetpipe;
  MpiSession session(&argc, &argv, kOutlives);
  const auto transport = session.make_transport({.exchange_seconds = kOutlives});
  Log log(nullptr, stderr, Log::Terminal::no);
  StartWatch watch(kOutlives, *transport, log);
  if (transport->rank() == Rank{0}) {
    transport->abort(watch.leave(SystemError("the scheduler does not answer")));
  }
  transport->exchange({});
}
