// SPDX-License-Identifier: Apache-2.0
#include "runtime/pipeline/pass_weights.h"

#include <gtest/gtest.h>

#include "kernels/devices.h"
#include "partitioner/schedule/counts.h"

namespace hetpipe {
namespace pass_weights_test {

// One weight, 10 at first, that every update lowers by 1: what a pass finds tells the version.
class Weights : public testing::Test {
 protected:
  Weights() { rules_.end = {1000}; }

  void use(const std::string& system, const std::string& weights, int micro_batches = 1,
           VersionDifference steps = {}) {
    Plan plan;
    plan.system = system;
    plan.weights = weights;
    plan.in_flight = rules_.in_flight;
    const WeightPolicy policy = policy_of(plan, steps.forward, steps.backward);
    const float initial = 10;
    weights_.emplace(*device_, *stream_, rules_, policy.visible, std::span(&initial, 1));
    optimizer_.emplace(OptimizerOptions{.name = "sgd", .learning_rate = 1}, *device_, *stream_, 1);
    versions_.emplace(policy, *weights_, *optimizer_, *device_, *stream_, micro_batches);
  }
  float forward(Minibatch p, int pass = 0) {
    const float seen = *versions_->forward(p, pass)->values.as<float>();
    versions_->forward_done(p, pass);
    return seen;
  }
  float backward(Minibatch p, int pass = 0) {
    const float seen = *versions_->backward(p, pass)->values.as<float>();
    versions_->backward_done(p, pass);
    return seen;
  }
  void update(Minibatch p) {
    Buffer gradient(*device_, *stream_, sizeof(float), MemoryKind::gradients);
    *gradient.as<float>() = 1;
    decayed_ = *versions_->at_update(p)->values.as<float>();
    optimizer_->update(p, p + 1, gradient, &decayed_);
    versions_->minibatch_done(p);
    weights_->computed(p, std::move(gradient), LocalWeights::WaveSums::no);
  }
  std::int64_t versions() const {  // beside the newest
    return static_cast<std::int64_t>(device_->memory().used(MemoryKind::versions) / sizeof(float));
  }

  std::unique_ptr<Device> device_ = make_device("reference", 1);
  std::unique_ptr<Stream> stream_ = device_->make_stream();
  WaveRules rules_;
  std::optional<LocalWeights> weights_;
  std::optional<Optimizer> optimizer_;
  std::optional<PassWeights> versions_;
  float decayed_ = 0;
};

TEST_F(Weights, Stash) {
  use("pipedream", "");
  EXPECT_EQ(forward(0), 10);
  EXPECT_EQ(forward(1), 10);
  EXPECT_EQ(backward(0), 10);
  update(0);
  EXPECT_EQ(decayed_, 10);
  EXPECT_EQ(forward(2), 9);
  EXPECT_EQ(backward(1), 10);  // as its forward
  update(1);
  EXPECT_EQ(decayed_, 9);  // the newest: whatever the depth
  EXPECT_EQ(backward(2), 9);
  update(2);
  EXPECT_EQ(forward(3), 7);
}

TEST_F(Weights, VerticalSync) {
  rules_.in_flight = 2;
  use("pipedream", "vertical-sync");
  EXPECT_EQ(forward(0), 10);
  EXPECT_EQ(backward(0), 10);
  update(0);
  EXPECT_EQ(forward(1), 10);  // sees updates up to 1 - 2
  EXPECT_EQ(backward(1), 10);
  update(1);
  EXPECT_EQ(decayed_, 9);
  EXPECT_EQ(forward(2), 9);
}

TEST_F(Weights, Newest) {
  use("vanilla", "");
  EXPECT_EQ(forward(0), 10);
  EXPECT_EQ(forward(1), 10);
  EXPECT_EQ(backward(0), 10);
  update(0);
  EXPECT_EQ(backward(1), 9);
  update(1);
  EXPECT_EQ(versions(), 0);  // nobody held one
}

TEST_F(Weights, PredictedForEachPass) {
  use("spectrain", "", 1, {2, 1});
  EXPECT_EQ(forward(0), 10);  // no update to go by
  EXPECT_EQ(forward(1), 10);
  EXPECT_EQ(backward(0), 10);
  update(0);
  EXPECT_EQ(forward(2), 9 - 2);
  EXPECT_EQ(backward(1), 9 - 1);
  EXPECT_EQ(versions(), 0);  // a prediction lives for its pass
}

TEST_F(Weights, PredictedByTheBellwether) {
  use("xpipe", "", 2, {1, 1});
  forward(0, 0), forward(0, 1), backward(0, 0), backward(0, 1);
  update(0);
  EXPECT_EQ(forward(1, 0), 9 - 1);
  EXPECT_EQ(versions(), 1);
  EXPECT_EQ(forward(1, 1), 9 - 1);
  EXPECT_EQ(versions(), 0);
  forward(2, 0);
  EXPECT_EQ(backward(1, 0), 9 - 1);
  EXPECT_EQ(versions(), 2);  // of the forwards of 2 and of the backwards of 1
  EXPECT_EQ(backward(1, 1), 9 - 1);
  update(1);
  EXPECT_EQ(forward(2, 1), 9 - 1);  // the bellwether's, though an update came between
}

TEST_F(Weights, OneVersionForTheForwardsOfAMinibatch) {
  use("timeprest", "", 2);
  forward(0, 0), forward(0, 1);
  EXPECT_EQ(forward(1, 0), 10);
  backward(0, 0), backward(0, 1);
  update(0);
  EXPECT_EQ(forward(1, 1), 10);
  EXPECT_EQ(backward(1, 0), 9);
}

TEST_F(Weights, TwoVersions) {
  rules_.in_flight = 2;
  use("pipedream-2bw", "");
  for (Minibatch p : {0, 1}) {
    EXPECT_EQ(forward(p), 10);
    backward(p);
  }
  update(1);  // one for the wave
  for (Minibatch p : {2, 3}) {
    EXPECT_EQ(forward(p), 10);  // wave 1 sees waves up to -1
    EXPECT_EQ(backward(p), 10);
  }
  update(3);
  EXPECT_EQ(decayed_, 10);
  EXPECT_EQ(forward(4), 9);
}

}  // namespace pass_weights_test
}  // namespace hetpipe
