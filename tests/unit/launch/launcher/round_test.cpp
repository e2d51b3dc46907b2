// SPDX-License-Identifier: Apache-2.0
#include "launch/launcher/round.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "base/error.h"
#include "launch/train/measured_model.h"
#include "runtime/transport/threads.h"
#include "tests/unit/base/travels.h"

namespace hetpipe {

// What a rank of this build says, and what one of another build does.
struct RoundTestFacts {
  std::string host = "none";
  int cores = 1;
};
constexpr auto fields_of(Type<RoundTestFacts>) {
  return fields<&RoundTestFacts::host, &RoundTestFacts::cores>;
}
struct RoundTestOlder {
  std::string host;
  bool slow = true;
};
constexpr auto fields_of(Type<RoundTestOlder>) {
  return fields<&RoundTestOlder::host, &RoundTestOlder::slow>;
}

namespace round_test {

// What `part` says, on all of these ranks as threads: the same words from each, or its error.
template <class Part>
std::vector<std::string> on_ranks(int ranks, const Part& part) {
  auto transports = make_threads_transports(ranks);
  std::vector<std::string> heard(transports.size());
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < transports.size(); ++r) {
    threads.emplace_back([&, r] {
      try {
        heard[r] = part(*transports[r]);
      } catch (const MachineFailed& failure) {
        heard[r] = "code " + std::to_string(failure.code);
      } catch (const std::exception& error) {
        heard[r] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return heard;
}

TEST(Round, EveryRankHearsTheValuesOfAll) {
  const auto part = [](Transport& transport) {
    const int self = transport.rank().value;
    const auto mine = [&] {
      return RoundTestFacts{.host = "n" + std::to_string(self), .cores = self};
    };
    const auto all = round_of(transport, {}, mine);
    const auto first = [&] { return self == 0 ? std::optional(all) : std::nullopt; };
    EXPECT_EQ(round_of(transport, {}, first).front(), all);
    return to_text(all);
  };
  const std::string all =
      R"([{"host":"n0","cores":0},{"host":"n1","cores":1},{"host":"n2","cores":2}])";
  EXPECT_EQ(on_ranks(3, part), std::vector<std::string>(3, all));
}

TEST(Round, AMistakeIsEverybodys) {
  const auto part = [](Transport& transport) {
    const auto mine = [&] {
      if (transport.rank() == Rank{1}) throw UserError("--x", "no. Do this.");
      return RoundTestFacts{};
    };
    return to_text(round_of(transport, {"a", "b"}, mine));
  };
  EXPECT_EQ(on_ranks(2, part), std::vector<std::string>(2, "rank 1 on b: --x: no. Do this."));
}

TEST(Round, AFailedMachineEndsAll) {
  const auto part = [](Transport& transport) {
    const auto mine = [&]() -> RoundTestFacts {
      if (transport.rank() == Rank{1}) throw SystemError("its disk is gone");
      return {};
    };
    return to_text(round_of(transport, {"a", "b"}, mine));
  };
  EXPECT_EQ(on_ranks(2, part), std::vector<std::string>(2, "code 3"));
}

// Before builds are compared, so that this can be said of them.
TEST(Round, RanksOfTwoBuildsUnderstandWhatBothKnow) {
  const auto part = [](Keys keys) {
    return [keys](Transport& transport) {
      if (transport.rank() == Rank{0}) {
        return to_text(round_of(
            transport, {},
            [] {
              return RoundTestFacts{"a", 4};
            },
            keys));
      }
      return to_text(round_of(
          transport, {},
          [] {
            return RoundTestOlder{"b", false};
          },
          keys));
    };
  };
  EXPECT_EQ(on_ranks(2, part(Keys::as_far_as_known)),
            (std::vector<std::string>{R"([{"host":"a","cores":4},{"host":"b","cores":1}])",
                                      R"([{"host":"a","slow":true},{"host":"b","slow":false}])"}));
  EXPECT_EQ(on_ranks(2, part(Keys::all)),
            (std::vector<std::string>{"the key 'slow' is unknown", "the key 'cores' is unknown"}));
}

TEST(MeasuredModel, TravelsAsItIs) {
  MeasuredModel measured = test::filled<MeasuredModel>();
  measured.profile = {.model = "mlp",
                      .layers = {{.name = "one", .inputs = {}, .shares = ""}},
                      .measurements = {{.device = "cpu",
                                        .batch = 32,
                                        .forward = {0.1},
                                        .backward = {0.3},
                                        .update = {},
                                        .output_bytes = {40},
                                        .stash_bytes = {80}}}};
  test::expect_all_travels(measured);
  test::expect_all_travels(test::filled<ModelMeasurer>());
}

}  // namespace round_test
}  // namespace hetpipe
