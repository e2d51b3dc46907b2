// SPDX-License-Identifier: Apache-2.0
#include "runtime/pipeline/local_weights.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <vector>

#include "kernels/devices.h"
#include "partitioner/schedule/lower.h"

namespace hetpipe {
namespace local_weights_test {

using Floats = std::vector<float>;

Floats random_floats(std::mt19937& random, std::size_t count) {
  std::normal_distribution<float> normal;
  Floats values(count);
  for (float& value : values) value = normal(random);
  return values;
}

void add(Floats& to, const Floats& from) {
  for (std::size_t e = 0; e < to.size(); ++e) to[e] += from[e];
}

// What docs/wsp.md says of F(p), from everything that ever happened: no state but the history.
struct History {
  const WaveRules& rules;
  std::map<Label, Floats> snapshots;
  std::map<Minibatch, Floats> updates;
  Wave gate = 0;  // the last one passed
  Label label = 0;
  ElementType pushed = ElementType::fp32;

  Floats sum_of_wave(Wave wave) const {
    const Minibatch first = wave * rules.in_flight;
    Floats sum = updates.at(first);
    for (Minibatch q = first + 1; q < first + rules.in_flight && updates.contains(q); ++q)
      add(sum, updates.at(q));
    if (pushed == ElementType::bf16) {
      for (float& value : sum) value = static_cast<float>(Bf16(value));
    }
    return sum;
  }
  Floats weights_of(Minibatch p) const {
    Floats weights = snapshots.at(label);
    for (Wave wave = label; wave < gate; ++wave) add(weights, sum_of_wave(wave));
    for (Minibatch q = gate * rules.in_flight; q <= p - rules.in_flight; ++q)
      add(weights, updates.at(q));
    return weights;
  }
};

// Weights are predicted with Adam's moments, whose bias depends on the steps of all runs.
TEST(LocalWeights, CountTheUpdatesOfEarlierRuns) {
  const auto device = make_device("reference", 1);
  const auto stream = device->make_stream();
  const WaveRules rules{.in_flight = 2, .first_wave = 5, .end = {20}, .updates_before = 33};
  const Floats initial{1, 2};
  LocalWeights weights(*device, *stream, rules, Visible::exactly, initial);
  EXPECT_EQ(weights.updates_done(), 33);
  for (Minibatch p = 10; p < 13; ++p) {
    weights.computed(p, Buffer(*device, *stream, 2 * sizeof(float), MemoryKind::gradients));
  }
  EXPECT_EQ(weights.updates_done(), 36);
}

// Plays one stage's schedule with random updates and snapshots.
class Player {
 public:
  Player(Device& device, const WaveRules& rules, std::uint32_t seed,
         ElementType pushed = ElementType::fp32)
      : device_(device),
        stream_(device.make_stream()),
        rules_(rules),
        random_(seed),
        history_{rules, {}, {}, 0, 0, pushed} {
    history_.gate = history_.label = rules.first_wave;
  }

  void play(const StageActions& actions) {
    LocalWeights weights = from_the_start();
    play(actions, weights);
  }

  // The same, stopped before each of these minibatches (all that has begun ends) and continued
  // there. `actions`: of the minibatches from one to before another.
  void play(const std::function<StageActions(Minibatch, Minibatch)>& actions,
            const std::vector<Minibatch>& stops) {
    Minibatch from = rules_.first_minibatch();
    std::optional<ExactWeights> state;
    for (const Minibatch stop : stops) {
      WaveRules rules = rules_;
      rules.played = rules.wave_of(from) - rules.first_wave;
      rules.inside = static_cast<int>(from % rules.in_flight);
      LocalWeights weights = state ? LocalWeights(device_, *stream_, rules, *state, history_.pushed)
                                   : from_the_start();
      StageActions some = actions(from, stop);
      const bool inside = stop % rules.in_flight != 0;
      if (inside) some.pop_back();  // the push of the part
      play(some, weights);
      state = inside ? weights.exact_inside() : exact_;
      stream_->synchronize();
      from = stop;
    }
  }

 private:
  LocalWeights from_the_start() {
    return {device_,        *stream_, rules_, Visible::exactly, snapshot(rules_.first_wave),
            history_.pushed};
  }

  void play(const StageActions& actions, LocalWeights& weights) {
    struct Lent {
      std::shared_ptr<const WeightVersion> version;
      Floats values;
    };
    std::map<Minibatch, Lent> in_flight;
    for (const Action& action : actions) {
      SCOPED_TRACE(to_string(action));
      const Minibatch p = action.minibatch;
      if (action.kind == ActionKind::pull) {
        const Wave gate = *rules_.gate_before(p);
        history_.label = choose_label(gate);
        history_.gate = gate;
        if (std::bernoulli_distribution()(random_)) {  // an evaluation
          weights.let_go(gate, rules_.bound_label(gate));
        }
        weights.rebase(gate, history_.label, buffer_of(snapshot(history_.label)));
      } else if (action.kind == ActionKind::forward) {
        auto version = weights.version_for(p);
        if (p % rules_.in_flight == rules_.in_flight - 1) weights.keep_exact();
        EXPECT_EQ(version->label, history_.label);
        const Floats values = host(version->values);
        ASSERT_EQ(values, history_.weights_of(p));
        in_flight[p] = {std::move(version), values};
      } else if (action.kind == ActionKind::backward) {
        EXPECT_EQ(host(in_flight.at(p).version->values), in_flight.at(p).values)
            << "a version in use changed";
        in_flight.erase(p);
      } else if (action.kind == ActionKind::update) {
        history_.updates[p] = random_floats(random_, kCount);
        weights.computed(p, buffer_of(history_.updates[p]));
      } else if (action.kind == ActionKind::push) {
        const auto sum = weights.end_wave(rules_.wave_of(p));
        EXPECT_EQ(pushed(*sum), history_.sum_of_wave(rules_.wave_of(p)));
        exact_ = weights.exact(rules_.wave_of(p));
      }
    }
  }

  static constexpr std::size_t kCount = 11;

  const Floats& snapshot(Label label) {
    auto [found, inserted] = history_.snapshots.try_emplace(label);
    if (inserted) found->second = random_floats(random_, kCount);
    return found->second;
  }
  Label choose_label(Wave gate) {
    const Label oldest = std::max(rules_.bound_label(gate), history_.label);
    if (rules_.pull == PullRule::bound) return rules_.bound_label(gate);
    return std::uniform_int_distribution<Label>(oldest, gate)(random_);
  }
  Buffer buffer_of(const Floats& values) {
    Buffer buffer(device_, *stream_, values.size() * sizeof(float), MemoryKind::workspace);
    device_.copy(*stream_, buffer.data(), std::as_bytes(std::span(values)).data(), buffer.bytes());
    stream_->synchronize();
    return buffer;
  }
  Floats host(const Buffer& buffer) {
    Floats values(buffer.bytes() / sizeof(float));
    device_.copy(*stream_, std::as_writable_bytes(std::span(values)).data(), buffer.data(),
                 buffer.bytes());
    stream_->synchronize();
    return values;
  }

  Floats pushed(const Buffer& sum) {
    if (history_.pushed == ElementType::fp32) return host(sum);
    std::vector<Bf16> values(kCount);
    EXPECT_EQ(sum.bytes(), kCount * sizeof(Bf16));
    device_.copy(*stream_, std::as_writable_bytes(std::span(values)).data(), sum.data(),
                 sum.bytes());
    stream_->synchronize();
    Floats wide;
    for (const Bf16 value : values) wide.push_back(static_cast<float>(value));
    return wide;
  }

  Device& device_;
  std::unique_ptr<Stream> stream_;
  const WaveRules& rules_;
  std::mt19937 random_;
  History history_;
  std::optional<ExactWeights> exact_;  // of the newest whole wave
};

void play_all_stages(const WaveRules& rules, int stages, std::uint32_t seed,
                     ElementType pushed = ElementType::fp32) {
  const Minibatch first = rules.first_minibatch(), end = rules.end[0];
  const Schedule schedule = lower(continuous_1f1b(stages, rules.in_flight, first, end),
                                  {StageSync::waves, rules.in_flight, first, end});
  for (const char* name : {"cpu", "reference"}) {
    const auto device = make_device(name, 1);
    for (int k = 0; k < stages; ++k) {
      SCOPED_TRACE(testing::Message()
                   << name << ", stage " << k << " of " << stages << ", seed " << seed);
      Player(*device, rules, seed, pushed).play(schedule[static_cast<std::size_t>(k)]);
      if (testing::Test::HasFatalFailure()) return;
    }
    EXPECT_EQ(device->memory().used(), 0u);
  }
}

TEST(LocalWeights, AreWhatTheHistorySays) {
  std::uint32_t seed = 0;
  for (int in_flight = 1; in_flight <= 4; ++in_flight) {
    for (Wave distance = 0; distance <= 3; ++distance) {
      for (const PullRule pull : {PullRule::bound, PullRule::newest}) {
        for (const Wave first_wave : {0, 3}) {
          WaveRules rules{.in_flight = in_flight,
                          .distance = distance,
                          .pull = pull,
                          .first_wave = first_wave,
                          .end = {}};
          const int partial = static_cast<int>(seed % static_cast<std::uint32_t>(in_flight));
          rules.end = {(first_wave + distance + 4) * in_flight + partial};
          SCOPED_TRACE(testing::Message()
                       << "Nm " << in_flight << " D " << distance << " first wave " << first_wave
                       << (pull == PullRule::bound ? " bound" : " newest"));
          for (int stages = 1; stages <= 3; ++stages) {
            play_all_stages(rules, stages, seed, ElementType::bf16);
            play_all_stages(rules, stages, seed++);
          }
        }
      }
    }
  }
}

// Wherever they stop, at the end of a wave or inside of it, and once more there.
TEST(LocalWeights, GoOnWhereverTheyStop) {
  const auto device = make_device("reference", 1);
  std::uint32_t seed = 0;
  for (int in_flight = 1; in_flight <= 4; ++in_flight) {
    for (Wave distance = 0; distance <= 2; ++distance) {
      WaveRules rules{.in_flight = in_flight, .distance = distance, .first_wave = 2, .end = {}};
      const Minibatch first = rules.first_minibatch(), end = (2 + distance + 4) * in_flight;
      rules.end = {end};
      for (Minibatch stop = first + 1; stop < end; ++stop) {
        for (const Minibatch again : {stop + 1, stop + in_flight}) {
          if (again >= end) continue;
          SCOPED_TRACE(testing::Message() << "Nm " << in_flight << " D " << distance << " stops "
                                          << stop << ", " << again);
          for (std::size_t k = 0; k < 2; ++k) {
            const auto actions = [&](Minibatch from, Minibatch to) {
              return lower(continuous_1f1b(2, in_flight, from, to),
                           {StageSync::waves, in_flight, first, to})[k];
            };
            Player(*device, rules, seed, ElementType::bf16).play(actions, {stop, again, end});
            Player(*device, rules, seed++).play(actions, {stop, again, end});
            if (testing::Test::HasFailure()) return;
          }
        }
      }
    }
  }
}

// An evaluation before a gate has a snapshot of its own: it takes the place of the weights and of
// what the snapshot holds.
TEST(LocalWeights, LetGoOfWhatTheNextSnapshotReplaces) {
  const auto device = make_device("reference", 1);
  const auto stream = device->make_stream();
  const WaveRules rules{.in_flight = 1, .distance = 1, .end = {8}};
  const Floats initial{1, 2};
  LocalWeights weights(*device, *stream, rules, Visible::exactly, initial);
  const auto numbers = [&] { return device->memory().used() / (2 * sizeof(float)); };
  for (Minibatch p = 0; p < 2; ++p) {
    (void)weights.version_for(p);
    weights.computed(p, Buffer(*device, *stream, 2 * sizeof(float), MemoryKind::gradients));
    weights.end_wave(p);
  }
  EXPECT_EQ(numbers(), 4u);  // the weights, an update that is not visible yet, and two pushes
  weights.let_go(2, 1);
  EXPECT_EQ(numbers(), 1u);  // the push that label 1 does not hold
  EXPECT_DEATH((void)weights.version_for(2), "before the snapshot");
}

TEST(LocalWeights, AStageWithoutParametersHasEmptyWeights) {
  const auto device = make_device("reference", 1);
  const auto stream = device->make_stream();
  const WaveRules rules{
      .in_flight = 2, .distance = 0, .pull = PullRule::bound, .first_wave = 0, .end = {4}};
  LocalWeights weights(*device, *stream, rules, Visible::exactly, std::span<const float>{});
  EXPECT_EQ(weights.version_for(0)->values.bytes(), 0u);
  weights.computed(0, Buffer());
  weights.computed(1, Buffer());
  EXPECT_EQ(weights.end_wave(0)->bytes(), 0u);
  weights.rebase(1, 1, Buffer());
  EXPECT_EQ(weights.version_for(3)->label, 1);
}

}  // namespace local_weights_test
}  // namespace hetpipe
