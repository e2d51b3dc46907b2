// SPDX-License-Identifier: Apache-2.0
#include "runtime/pipeline/worker_place.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"

namespace hetpipe {
namespace message_cursor_test {

std::string sends(const std::string& text, Payload payload, std::optional<Minibatch> end = {}) {
  const PeriodicActions actions = without_period(parse_actions(text));
  MessageCursor cursor(actions, payload);
  if (end) cursor.stop_before(*end);
  StageActions found;
  while (const auto action = cursor.next()) found.push_back(*action);
  return to_string(found);
}

TEST(MessageCursor, SendsOfOnePayload) {
  const std::string middle = "V0 F0 S0 V1 F1 S1 V0 B0 S0 U0 V1 B1 S1 U1";
  EXPECT_EQ(sends(middle, Payload::activations), "S0 S1");
  EXPECT_EQ(sends(middle, Payload::gradients), "S0 S1");
  EXPECT_EQ(sends(middle, Payload::gradients, 1), "S0");
}

TEST(MessageCursor, MicroBatchesAndChunks) {
  const std::string two = "F0 S0 F0.1 S0.1 F0/1 S0/1 V0/1 B0/1 S0/1 F0.1/1 S0.1/1 V0 B0 W0 S0.2";
  EXPECT_EQ(sends(two, Payload::activations), "S0 S0.1 S0/1 S0.1/1 S0.2");
  EXPECT_EQ(sends(two, Payload::gradients), "S0/1");
}

// One B and one gradient for all micro-batches (nF1B).
TEST(MessageCursor, OneBackwardForAll) {
  const std::string all = "V0 F0 S0 V0.1 F0.1 S0.1 V0 B0 S0 U0";
  EXPECT_EQ(sends(all, Payload::activations), "S0 S0.1");
  EXPECT_EQ(sends(all, Payload::gradients), "S0");
}

// "2.1/0": minibatch 2, micro-batch 1, chunk 0.
std::string forwards(const std::string& text, std::vector<bool> wanted, bool whole_minibatches) {
  WorkerPlace place;
  place.split = SampleSplit(2, {{}});
  place.whole_minibatches = whole_minibatches;
  place.schedule = std::make_shared<const PeriodicSchedule>(1, without_period(parse_actions(text)));
  ForwardCursor cursor(place, std::move(wanted));
  std::string found;
  while (const auto pass = cursor.next()) {
    found +=
        format(" %lld.%d/%d", static_cast<long long>(pass->minibatch), pass->micro, pass->chunk);
  }
  return found;
}

TEST(ForwardCursor, PassesOfTheChunksThatAreWanted) {
  const std::string two = "F0 F0.1 V0/1 F0/1 F0.1/1 B0/1 F1 B0.1/1 F1.1 R0 B0 U0";
  EXPECT_EQ(forwards(two, {true, false}, false), " 0.0/0 0.1/0 1.0/0 1.1/0");
  EXPECT_EQ(forwards(two, {true, true}, false), " 0.0/0 0.1/0 0.0/1 0.1/1 1.0/0 1.1/0");
  EXPECT_EQ(forwards(two, {false, false}, false), "");
}

TEST(ForwardCursor, OneActionIsAllMicroBatches) {
  EXPECT_EQ(forwards("F0 B0 F1 B1", {true}, true), " 0.0/0 0.1/0 1.0/0 1.1/0");
}

}  // namespace message_cursor_test
}  // namespace hetpipe
