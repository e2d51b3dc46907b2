// SPDX-License-Identifier: Apache-2.0
#include "mpi_main.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "tests/main/filter.h"

namespace hetpipe {
namespace {

MpiSession* held_by_main = nullptr;

class FailurePrinter : public testing::EmptyTestEventListener {
 public:
  explicit FailurePrinter(Rank rank) : rank_(rank) {}

 private:
  // The name is kept from here: GoogleTest holds its lock while it reports a result.
  void OnTestStart(const testing::TestInfo& test) override { test_ = test.name(); }
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::printf("rank %d: %s: %s:%d: %s\n", rank_.value, test_.c_str(),
                result.file_name() != nullptr ? result.file_name() : "-", result.line_number(),
                result.message());
    std::fflush(stdout);
  }

  Rank rank_;
  std::string test_;
};

int run(MpiSession& session) {
  held_by_main = &session;
  if (session.rank() != Rank{0}) {
    testing::TestEventListeners& listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new FailurePrinter(session.rank()));
  }
  return RUN_ALL_TESTS();
}

}  // namespace

MpiSession& mpi_session() { return *held_by_main; }

}  // namespace hetpipe

int main(int argc, char** argv) {
  hetpipe::MpiSession session(&argc, &argv);
  testing::InitGoogleTest(&argc, argv);
  return hetpipe::test::filter_selects() ? hetpipe::run(session) : 1;
}
