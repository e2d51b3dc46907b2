// SPDX-License-Identifier: Apache-2.0
#include "runtime/pipeline/tied_weights.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/index.h"
#include "base/random.h"
#include "kernels/devices.h"
#include "tests/unit/sync/on_threads.h"

// What stages send each other of tied weights, with weights and gradients that are made up: several
// weights with several users each, in any stages, replicas and chunks.
namespace hetpipe {
namespace tied_weights_test {

constexpr Minibatch kEnd = 8;
constexpr Linear kHead{.output_features = 7, .bias = true, .transposed = true};

// Layers 1, 3 and 5 use the weight of layer 0, layers 4 and 7 that of layer 2.
Model tied_model() {
  Model model("tied", {5}, 7);
  model.add("words", Embedding{.vocabulary = 7, .features = 4});
  model.add("up0", kHead, {0}, 0);
  model.add("down0", Linear{4});
  model.add("up1", kHead, {2}, 0);
  model.add("down1", Linear{4}, {3}, 2);
  model.add("up2", kHead, {4}, 0);
  model.add("relu", Relu{});
  model.add("down2", Linear{4}, {6}, 2);
  model.add("head", kHead);
  model.add("loss", SoftmaxCrossEntropy{});
  return model;
}

struct Case {
  std::vector<int> ends;                // of stages
  std::vector<std::vector<int>> ranks;  // [stage][replica]
  int positions = 0;                    // 0: as many as stages
  TiedWeights::Rule rule{};
};

// Whose sum depends on the order of adding.
float number(std::uint64_t what, int rank, Minibatch p, std::int64_t element) {
  const std::uint64_t key =
      random_key({what, static_cast<std::uint64_t>(rank), static_cast<std::uint64_t>(p)});
  return random_normal(key, static_cast<std::uint64_t>(element));
}
enum What : std::uint64_t { weights, gradients, uses };

class Play {
 public:
  explicit Play(const Case& played) : case_(played), model_(tied_model()) {
    int first = 0;
    for (const int end : case_.ends) {
      layouts_.push_back(ParameterLayout::parameters(model_, first, end));
      first = end;
    }
    positions_ = case_.positions > 0 ? case_.positions : static_cast<int>(case_.ends.size());
    for (const auto& stage : case_.ranks) {
      for (const int rank : stage) ranks_ = std::max(ranks_, rank + 1);
    }
  }

  void run() {
    test::on_threads(ranks_, [this](Transport& transport) { work(transport); });
  }

 private:
  Minibatch version_of(Minibatch p) const {
    return case_.rule.by_wave ? p / case_.rule.in_flight : p;
  }
  bool updates(Minibatch p) const {
    return !case_.rule.by_wave || (p + 1) % case_.rule.in_flight == 0 || p + 1 == kEnd;
  }
  int replicas(int stage) const { return static_cast<int>(case_.ranks[at(stage)].size()); }

  // Floats of a rank's chunks before this stage.
  std::int64_t before(int stage, std::int64_t (ParameterLayout::*count)() const) const {
    std::int64_t sum = 0;
    for (int k = stage % positions_; k < stage; k += positions_) sum += (layouts_[at(k)].*count)();
    return sum;
  }

  // From the definition: the sum that leaves a stage, or at the owner's is the gradient.
  float sum_of(const ParameterEntry& owner, int stage, int replica, Minibatch p,
               std::int64_t element) const {
    const int rank = case_.ranks[at(stage)][at(replica)];
    std::vector<float> terms;
    for (int next = stage + 1; next < static_cast<int>(layouts_.size()); ++next) {
      if (!holds(next, owner)) continue;
      for (int r = 0; r < replicas(next); ++r) {
        if (r % replicas(stage) == replica) terms.push_back(sum_of(owner, next, r, p, element));
      }
      break;
    }
    const auto& entries = layouts_[at(stage)].entries();
    for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
      if (entry->name != owner.name) continue;
      const bool own = entry->is_own();
      const std::int64_t offset =
          before(stage, own ? &ParameterLayout::count : &ParameterLayout::use_count);
      terms.push_back(number(own ? gradients : uses, rank, p, offset + entry->offset + element));
    }
    float sum = terms.front();
    for (std::size_t i = 1; i < terms.size(); ++i) sum += terms[i];
    return sum;
  }
  bool holds(int stage, const ParameterEntry& owner) const {
    const auto& entries = layouts_[at(stage)].entries();
    return std::any_of(entries.begin(), entries.end(),
                       [&](const ParameterEntry& entry) { return entry.name == owner.name; });
  }

  void work(Transport& transport) {
    const int rank = transport.rank().value;
    const auto device = make_device("reference", 1);
    const auto stream = device->make_stream();
    DeviceTransport moving(transport, *device, *stream);
    RankService service(transport, 30);
    Pace pace(service);
    RankReport report;
    WorkQueue work(*device, *stream, service, report, 1);
    WorkerPlace place;
    std::vector<std::vector<int>> shares;
    std::vector<std::unique_ptr<Stage>> stages;
    std::vector<Stage*> chunks;
    for (int k = 0; k < static_cast<int>(case_.ends.size()); ++k) {
      place.ranks.emplace_back();
      shares.emplace_back(at(replicas(k)), 1);
      for (int r = 0; r < replicas(k); ++r) {
        place.ranks.back().emplace_back(case_.ranks[at(k)][at(r)]);
        if (case_.ranks[at(k)][at(r)] != rank) continue;
        place.position = k % positions_;
        place.replica = r;
        stages.push_back(
            std::make_unique<Stage>(model_, case_.ends, StageId{k}, 1, *device, *stream));
        chunks.push_back(stages.back().get());
      }
    }
    place.stage_end = case_.ends;
    place.split = SampleSplit(1, shares);
    place.schedule = std::make_shared<const PeriodicSchedule>(at(positions_));
    TiedWeights::Rule rule = case_.rule;
    rule.end = kEnd;
    TiedWeights tied(place, chunks, rule, moving, service, pace, report, work);
    tied.post_ahead();

    // F0 F1 B0 F2 B1 ...
    for (Minibatch p = 0; p <= kEnd; ++p) {
      if (p < kEnd) {
        for (std::size_t c = 0; c < chunks.size(); ++c) {
          forward(tied, *chunks[c], static_cast<int>(c), p);
        }
        tied.forwards_done(p);
      }
      if (p == 0) continue;
      const Minibatch newest = std::min(p, kEnd - 1);
      for (std::size_t c = 0; c < chunks.size(); ++c) {
        const float* foreign = tied.of_backward(p - 1, static_cast<int>(c), 0);
        expect_foreign(*chunks[c], foreign, case_.rule.keeps ? p - 1 : newest);
        tied.backward_done(p - 1, static_cast<int>(c), 0);
      }
      if (updates(p - 1)) add_up(tied, chunks, place.replica, p - 1, *device, *stream);
      tied.minibatch_done(p - 1);
      service.poll();
      tied.post_ahead();
    }
    tied.finish();
  }

  void forward(TiedWeights& tied, const Stage& stage, int chunk, Minibatch p) {
    tied.take(p, chunk);
    tied.take(p, chunk);  // another micro-batch
    expect_foreign(stage, tied.of_forward(p, chunk), p);
    const std::int64_t count = stage.parameters().count();
    const auto version = std::make_shared<WeightVersion>();
    version->values =
        Buffer(stage.device(), stage.stream(), at(count) * sizeof(float), MemoryKind::versions);
    float* const own = version->values.as<float>();
    for (std::int64_t e = 0; e < count; ++e) own[e] = weight(stage.id().value, p, e);
    tied.give(p, chunk, version, own);
    if (case_.rule.keeps_version) return;
    EXPECT_EQ(version.use_count(), 1);
    std::fill_n(own, count, -1.0f);  // what has been given stays what it was
    tied.give(p, chunk, version, own);
  }
  // The same at all replicas.
  float weight(int stage, Minibatch p, std::int64_t element) const {
    return number(weights, stage, version_of(p), element);
  }

  void expect_foreign(const Stage& stage, const float* foreign, Minibatch p) const {
    for (const ForeignParameter& one : stage.parameters().foreign()) {
      ASSERT_NE(foreign, nullptr);
      const int owner = stage_of_layer(case_.ends, one.owner_layer);
      for (const ParameterEntry& entry : layouts_[at(owner)].of_layer(one.owner_layer)) {
        if (!entry.is_own() || entry.name != one.name) continue;
        for (std::int64_t e = 0; e < one.count; ++e) {
          ASSERT_EQ(foreign[one.offset + e], weight(owner, p, entry.offset + e))
              << one.name << " at stage " << stage.id().value << ", minibatch " << p;
        }
      }
    }
  }

  void add_up(TiedWeights& tied, const std::vector<Stage*>& chunks, int replica, Minibatch p,
              Device& device, Stream& stream) {
    const int rank = case_.ranks[at(chunks[0]->id().value)][at(replica)];
    const auto fill = [&](const Buffer& buffer, What what) {
      const auto floats = static_cast<std::int64_t>(buffer.bytes() / sizeof(float));
      for (std::int64_t e = 0; e < floats; ++e) buffer.as<float>()[e] = number(what, rank, p, e);
    };
    std::int64_t floats = 0;
    for (const Stage* chunk : chunks) floats += chunk->parameters().count();
    const Buffer own(device, stream, at(floats) * sizeof(float), MemoryKind::gradients);
    fill(own, gradients);
    const auto of_uses = tied.memory_of_uses();
    if (of_uses) fill(*of_uses, uses);
    tied.add_up(p, own, of_uses);
    for (const Stage* chunk : chunks) {
      const std::int64_t first = before(chunk->id().value, &ParameterLayout::count);
      for (const ParameterEntry& entry : chunk->parameters().entries()) {
        if (!entry.is_own()) continue;
        for (std::int64_t e = 0; e < entry.count; ++e) {
          ASSERT_EQ(own.as<float>()[first + entry.offset + e],
                    sum_of(entry, chunk->id().value, replica, p, e))
              << entry.name << " of minibatch " << p;
        }
      }
    }
  }

  const Case& case_;
  Model model_;
  std::vector<ParameterLayout> layouts_;
  int positions_ = 0;
  int ranks_ = 0;
};

void play(const Case& played) {
  Play(played).run();
  Case copies = played;
  copies.rule.keeps_version = false;
  Play(copies).run();
  Case newest = copies;
  newest.rule.keeps = false;
  Play(newest).run();
}

TEST(TiedWeights, OfSeveralLayersInOneStage) { play({{10}, {{0}}}); }

TEST(TiedWeights, OfSeveralLayersInAnyStages) {
  play({{1, 10}, {{0}, {1}}});
  play({{1, 3, 5, 10}, {{0}, {1}, {2}, {3}}});
  // Some stages hold nothing that is tied.
  play({{1, 2, 4, 6, 7, 8, 9, 10}, {{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}}});
}

TEST(TiedWeights, OfReplicas) {
  play({{1, 3, 5, 10}, {{0}, {1, 2}, {3}, {4, 5, 6}}});
  play({{1, 3, 5, 10}, {{0, 1, 2}, {3, 4}, {5}, {6}}});
  play({{3, 10}, {{0, 1}, {2, 3}}});
}

TEST(TiedWeights, OfChunksOfOneDevice) {
  play({{1, 3, 5, 10}, {{0}, {1}, {0}, {1}}, 2});
  play({{2, 4, 5, 10}, {{0, 1}, {2}, {0, 1}, {2}}, 2});
}

TEST(TiedWeights, TravelOnceAWaveWhereThatMakesOneUpdate) {
  play({{1, 3, 5, 10}, {{0}, {1}, {2}, {3}}, 0, {.keeps = true, .by_wave = true, .in_flight = 3}});
}

}  // namespace tied_weights_test
}  // namespace hetpipe
