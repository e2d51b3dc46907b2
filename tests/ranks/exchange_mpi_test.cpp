// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "exchange_scenario.h"
#include "mpi_main.h"
#include "tests/main/patience.h"

namespace hetpipe {
namespace exchange_mpi_test {

TEST(GradientExchangeMpi, RandomGroupsAddUpAsASerialProgram) {
  const auto transport = mpi_session().make_transport({.exchange_seconds = test::patience(20)});
  for (std::uint64_t seed = 0; seed < 8; ++seed) play_exchange(*transport, seed);
}

}  // namespace exchange_mpi_test
}  // namespace hetpipe
