// SPDX-License-Identifier: Apache-2.0
// A job that fails in the way its argument names: abort, finalize, exchange.
#include <cstdio>
#include <string>

#include "base/error.h"
#include "base/time.h"
#include "runtime/transport/mpi.h"
#include "runtime/transport/wait.h"

namespace hetpipe {
namespace {

constexpr double kGivesUp = 10;    // s; that a rank waits where another does not come
constexpr double kOutlives = 300;  // s; longer than any failure takes to be noticed

void stay(Transport& transport) {
  wait_until_time(now_ns() + to_ns(kOutlives), [&] { transport.progress(); });
}

void play(const std::string& how, Transport& transport) {
  const bool first = transport.rank() == Rank{0};
  if (how == "abort") {
    if (transport.rank() != Rank{1}) return stay(transport);
    std::fputs("rank 1 aborts\n", stderr);
    transport.abort(static_cast<int>(ExitCode::numerical));
  } else if (how == "exchange") {
    if (!first) return stay(transport);
    try {
      transport.exchange({});
    } catch (const SystemError& error) {
      std::fprintf(stderr, "%s\n", error.what());
      transport.abort(static_cast<int>(ExitCode::system));
    }
  } else if (how == "finalize") {
    if (!first) stay(transport);
  }
}

}  // namespace
}  // namespace hetpipe

int main(int argc, char** argv) {
  const std::string how = argc > 1 ? argv[1] : "";
  hetpipe::MpiSession session(&argc, &argv,
                              how == "finalize" ? hetpipe::kGivesUp : hetpipe::kOutlives);
  const auto transport = session.make_transport(
      {.exchange_seconds = how == "exchange" ? hetpipe::kGivesUp : hetpipe::kOutlives});
  hetpipe::play(how, *transport);
}
