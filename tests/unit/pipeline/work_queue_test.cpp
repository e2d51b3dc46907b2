// SPDX-License-Identifier: Apache-2.0
#include "runtime/pipeline/work_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "kernels/buffer.h"
#include "kernels/devices.h"
#include "kernels/offload/clock_device.h"
#include "runtime/transport/threads.h"

namespace hetpipe {
namespace work_queue_test {

using testing::ElementsAre;
using Work = WorkQueue::Work;

// One rank with a device that is a clock: a piece of `seconds` for each copy of so many bytes.
class WorkQueueTest : public testing::Test {
 protected:
  static constexpr double kBytesPerSecond = 1e6;

  void run(int passes, const std::function<void(WorkQueue&)>& body) {
    const auto transports = make_threads_transports(1);
    RankService service(*transports[0], 30);
    WorkQueue queue(*device_, *stream_, service, report_, passes);
    body(queue);
    queue.finish();
  }
  void piece(WorkQueue& queue, Work work, const std::string& name, double seconds) {
    queue.begin();
    const auto bytes = static_cast<std::size_t>(seconds * kBytesPerSecond);
    device_->copy(*stream_, queue.lend(bytes), memory_.data(), bytes);
    queue.end(work, name, [this, name](const WorkQueue::Span& span) {
      done_.push_back(name);
      spans_.push_back(span);
    });
  }

  std::unique_ptr<Device> device_ =
      make_clock_device({.launch_seconds = 0, .bus_bandwidth = kBytesPerSecond});
  std::unique_ptr<Stream> stream_ = device_->make_stream();
  Buffer memory_{*device_, *stream_, 1 << 20, MemoryKind::workspace};
  RankReport report_;
  std::vector<std::string> done_;
  std::vector<WorkQueue::Span> spans_;
};

TEST_F(WorkQueueTest, OfOnePassWaitsForEachPiece) {
  run(1, [&](WorkQueue& queue) {
    EXPECT_FALSE(queue.is_ahead());
    piece(queue, Work::pass, "a", 2e-3);
    EXPECT_THAT(done_, ElementsAre("a"));
    piece(queue, Work::brief, "b", 2e-3);
    EXPECT_THAT(done_, ElementsAre("a", "b"));
  });
}

TEST_F(WorkQueueTest, IsAheadByAPassAndWhatIsBrief) {
  run(2, [&](WorkQueue& queue) {
    piece(queue, Work::pass, "a", 0.3);
    piece(queue, Work::brief, "b", 1e-3);
    EXPECT_TRUE(done_.empty());
    queue.then([&] { done_.push_back("then"); });
    piece(queue, Work::pass, "c", 0.3);
    EXPECT_EQ(done_.front(), "a");
    EXPECT_NE(done_.back(), "c");
    queue.finish();
    EXPECT_THAT(done_, ElementsAre("a", "b", "then", "c"));
    bool at_once = false;
    queue.then([&] { at_once = true; });
    EXPECT_TRUE(at_once);
  });
  ASSERT_EQ(spans_.size(), 3u);
  EXPECT_GE(spans_[0].seconds(), 0.3);
  EXPECT_EQ(spans_[1].start_ns, spans_[0].end_ns);
  EXPECT_EQ(spans_[2].start_ns, spans_[1].end_ns);
}

// The part of a wait during which the device had work counts for nothing.
TEST_F(WorkQueueTest, WaitsCountWhereTheDeviceStoodStill) {
  std::int64_t idle = 0;
  run(2, [&](WorkQueue& queue) {
    piece(queue, Work::pass, "a", 0.01);
    const std::int64_t start = now_ns();
    while (seconds_between(start, now_ns()) < 0.03) {
    }
    queue.waited(start, now_ns(), &RankReport::bubble_seconds);
    piece(queue, Work::pass, "b", 0.001);
    queue.finish();
    idle = spans_[1].start_ns - spans_[0].end_ns;
  });
  EXPECT_GT(report_.bubble_seconds, 0.019);
  EXPECT_NEAR(report_.bubble_seconds + report_.unfed_seconds, static_cast<double>(idle) * 1e-9,
              0.001 + report_.unfed_seconds);
}

TEST(ClockDevice, Settings) {
  EXPECT_FALSE(try_parse_clock("offload"));
  const auto clock = try_parse_clock("offload:layer=0.002,launches=7");
  ASSERT_TRUE(clock);
  EXPECT_EQ(clock->layer_seconds, 0.002);
  EXPECT_EQ(clock->launches, 7);
  EXPECT_EQ(clock->launch_seconds, ClockSettings().launch_seconds);
  for (const char* name : {"offload:", "offload:layer", "offload:layer=2ms", "offload:speed=1",
                           "offload:launch=-1", "offload:bus=0"}) {
    EXPECT_THROW(try_parse_clock(name), UserError) << name;
    EXPECT_THROW(make_device(name, 1), UserError) << name;
  }
  EXPECT_FALSE(make_device("offload:layer=1", 1)->host_memory());
}

}  // namespace work_queue_test
}  // namespace hetpipe
