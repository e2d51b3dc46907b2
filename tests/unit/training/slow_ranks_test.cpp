// SPDX-License-Identifier: Apache-2.0
#include "runtime/training/slow_ranks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>

namespace hetpipe {
namespace slow_ranks_test {

using Change = SlowRanks::Change;
// Seconds per sample of a rank in a wave.
using TraceOfRanks = std::function<std::optional<double>(int rank, Wave wave)>;

struct Said {
  Wave wave;
  Change change;
};

std::vector<SlowRanks::Place> on_one_machine(int ranks) {
  return std::vector<SlowRanks::Place>(static_cast<std::size_t>(ranks), {"m", true});
}

std::vector<Said> play(const std::vector<SlowRanks::Place>& places, Wave waves,
                       const TraceOfRanks& trace) {
  SlowRanks slow(places);
  std::vector<Said> said;
  for (Wave wave = 0; wave < waves; ++wave) {
    std::vector<std::optional<double>> seconds;
    for (std::size_t r = 0; r < places.size(); ++r) {
      seconds.push_back(trace(static_cast<int>(r), wave));
    }
    for (const Change& change : slow.observe(wave, seconds)) said.push_back({wave, change});
  }
  return said;
}

TEST(SlowRanks, NamesOneThatRunsAtAFifthWithinTenWaves) {
  for (const Wave from : {9, 10, 57, 1000}) {
    SCOPED_TRACE(from);
    const auto said = play(on_one_machine(4), from + 20, [&](int rank, Wave wave) {
      const double own = 0.001 * (1 + rank);  // devices of different speeds
      return rank == 2 && wave >= from ? 5 * own : own;
    });
    ASSERT_EQ(said.size(), 1u);
    EXPECT_LT(said[0].wave, from + 10);
    EXPECT_EQ(said[0].change.rank, Rank{2});
    EXPECT_TRUE(said[0].change.slow);
    EXPECT_DOUBLE_EQ(said[0].change.factor, 5);
    EXPECT_DOUBLE_EQ(said[0].change.usual, 0.003);
    EXPECT_EQ(said[0].change.first, from);
  }
}

// Alone on its machine; a GPU, whose pace owes nothing to its neighbours; all GPUs of a machine.
TEST(SlowRanks, ComparesOnlyThoseThatShareProcessors) {
  const auto fifth = [](std::vector<int> which) {
    return [=](int rank, Wave wave) {
      const bool slow = std::find(which.begin(), which.end(), rank) != which.end();
      return slow && wave >= 30 ? 5.0 : 1.0;
    };
  };
  EXPECT_EQ(play({{"a", true}, {"b", true}}, 60, fifth({0, 1})).size(), 2u);
  EXPECT_EQ(play({{"a", false}, {"a", false}}, 60, fifth({0, 1})).size(), 2u);
  EXPECT_EQ(play({{"a", false}, {"a", true}, {"a", true}}, 60, fifth({1, 2})).size(), 0u);
  EXPECT_EQ(play(on_one_machine(2), 60, fifth({0})).size(), 1u);
  EXPECT_EQ(play(on_one_machine(3), 60, fifth({0, 1, 2})).size(), 0u);  // the machine is busy
  EXPECT_EQ(play(on_one_machine(4), 60, fifth({0, 3})).size(), 2u);
}

TEST(SlowRanks, SaysWhenOneHasRecovered) {
  SlowRanks slow(on_one_machine(2));
  std::vector<Said> said;
  for (Wave wave = 0; wave < 80; ++wave) {
    const double own = wave >= 30 && wave < 50 ? 4.0 : wave >= 50 ? 1.2 : 1.0;
    for (const Change& change : slow.observe(wave, {own, 1.0})) said.push_back({wave, change});
    EXPECT_EQ(slow.slow_now().size(), said.size() == 1 ? 1u : 0u);
    if (said.size() == 1) {
      EXPECT_EQ(slow.slow_now()[0].rank, Rank{0});
      if (wave < 50) {
        EXPECT_EQ(slow.slow_now()[0].factor, 4);
      }
    }
  }
  ASSERT_EQ(said.size(), 2u);
  EXPECT_FALSE(said[1].change.slow);
  EXPECT_EQ(said[1].change.rank, Rank{0});
  EXPECT_EQ(said[1].change.factor, 4);
  EXPECT_GE(said[1].wave, 50);
  EXPECT_LT(said[1].wave, 60);
}

// Between the two limits nothing changes; beyond them, and back, it is said once for each turn.
TEST(SlowRanks, DoesNotFlutter) {
  EXPECT_EQ(play(on_one_machine(1), 200,
                 [](int, Wave wave) {
                   return wave < 20 ? 1.0 : wave < 40 ? 5.0 : wave % 2 == 0 ? 2.3 : 3.5;
                 })
                .size(),
            1u);
  EXPECT_EQ(play(on_one_machine(1), 20 + 6 * 50,
                 [](int, Wave wave) { return wave >= 20 && (wave - 20) / 50 % 2 == 0 ? 6.0 : 1.0; })
                .size(),
            6u);
  EXPECT_EQ(play(on_one_machine(1), 400,
                 [](int, Wave wave) {
                   return wave % 2 == 0 ? 1.0 : 8.0;  // every other wave is not nearly all
                 })
                .size(),
            0u);
}

TEST(SlowRanks, DoesWithoutThoseThatPlayNoWave) {
  const auto said = play(on_one_machine(2), 60, [](int rank, Wave wave) -> std::optional<double> {
    if (rank == 1 && wave >= 20) return std::nullopt;  // it has ended
    return rank == 0 && wave >= 40 ? 5.0 : 1.0;
  });
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0].change.rank, Rank{0});
}

// Ten thousand waves of six ranks on a busy machine. One wave in 25 of any rank takes up to a
// hundred times as long; now and then, for some dozens of waves, all ranks of the machine are up to
// twelve times as slow, each by a factor of its own from wave to wave; and the first waves are
// slow. Nobody is named. In the same noise, a rank at a fifth is named within ten waves.
std::vector<Said> on_a_busy_machine(unsigned seed, Wave waves, std::optional<Wave> fifth_from) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> uniform;
  std::vector<SlowRanks::Place> places = on_one_machine(4);
  places.push_back({"other", false});
  places.push_back({"other", false});
  double busy = 1;
  Wave busy_until = 0;
  return play(places, waves, [&](int rank, Wave wave) {
    if (rank == 0 && wave >= busy_until) {
      const bool calm = uniform(random) < 0.98;
      busy = calm ? 1 : 1 + 11 * uniform(random);
      if (!calm) busy_until = wave + 1 + static_cast<Wave>(60 * uniform(random));
    }
    double seconds = 0.001 * (1 + 0.2 * uniform(random));
    if (wave < 3) seconds *= 20;
    if (uniform(random) < 0.04) seconds *= std::min(100.0, 1 / uniform(random));
    if (rank < 4) seconds *= 1 + (busy - 1) * (0.4 + 1.2 * uniform(random));
    return rank == 1 && fifth_from && wave >= *fifth_from ? 5 * seconds : seconds;
  });
}

TEST(SlowRanks, NoFalseAlarmsOnABusyMachine) {
  for (unsigned seed = 0; seed < 4; ++seed) {
    const auto said = on_a_busy_machine(seed, 10'000, std::nullopt);
    EXPECT_TRUE(said.empty()) << "rank " << said[0].change.rank.value << " at wave " << said[0].wave
                              << ", seed " << seed;
  }
  int late = 0;
  for (unsigned seed = 100; seed < 120; ++seed) {
    const auto said = on_a_busy_machine(seed, 300, 250);
    ASSERT_FALSE(said.empty()) << seed;
    EXPECT_EQ(said[0].change.rank, Rank{1});
    EXPECT_GE(said[0].change.factor, 4) << seed;
    EXPECT_GE(said[0].wave, 250);
    late += said[0].wave >= 260;  // behind the noise of others
  }
  EXPECT_LE(late, 2);
}

}  // namespace slow_ranks_test
}  // namespace hetpipe
