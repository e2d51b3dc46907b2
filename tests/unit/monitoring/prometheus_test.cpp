// SPDX-License-Identifier: Apache-2.0
#include "runtime/monitoring/prometheus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hetpipe {
namespace prometheus_test {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Prometheus, EscapesLabels) {
  EXPECT_EQ(escaped_label("runs/a"), "runs/a");
  EXPECT_EQ(escaped_label("a\\b\"c\nd"), R"(a\\b\"c\nd)");
  EXPECT_EQ(escaped_label("gr\xc3\xbc\xc3\x9f"), "gr\xc3\xbc\xc3\x9f");
  EXPECT_EQ(escaped_label("\xff\"x"), "?\\\"x");  // no UTF-8
}

RunStatus some_status() {
  RunStatus status;
  status.run = "/runs/\"a\"";
  status.model = "mlp";
  status.dataset_size = 200;
  status.samples = 300;
  status.virtual_workers = {
      {.waves = 3, .minibatches = 12, .staleness_min = 0, .staleness_max = 3}};
  status.ranks = {{.rank = 0, .device = "n0:0", .seconds = 8, .waited = {.bubble = 1.5}},
                  {.rank = 1, .device = "n0:1", .stage = 1, .waited = {.bubble = 2, .data = 0.25}}};
  return status;
}

TEST(Prometheus, AddsUpTheWaitsOfAVirtualWorkersRanks) {
  const std::string text = prometheus_text(some_status());
  EXPECT_THAT(text, HasSubstr("\nhetpipe_virtual_worker_wait_seconds_total{run=\"/runs/\\\"a\\\"\","
                              "virtual_worker=\"0\",cause=\"bubble\"} 3.5\n"));
  EXPECT_THAT(text, HasSubstr("cause=\"data\"} 0.25\n"));
  EXPECT_THAT(text, HasSubstr("hetpipe_epoch{run=\"/runs/\\\"a\\\"\"} 1.5\n"));
}

TEST(Prometheus, LeavesOutWhatIsNotKnown) {
  RunStatus status = some_status();
  for (const char* name :
       {"hetpipe_loss", "hetpipe_test_loss", "hetpipe_run_exit_code",
        "hetpipe_checkpoint_timestamp_seconds", "hetpipe_rank_peak_memory_bytes"}) {
    EXPECT_THAT(prometheus_text(status), Not(HasSubstr(name)));
  }
  status.loss = 0.5;
  status.ranks[1].peak_memory = 1 << 20;
  status.state = kEnded;
  const std::string text = prometheus_text(status);
  EXPECT_THAT(text, HasSubstr("# TYPE hetpipe_loss gauge\nhetpipe_loss{"));
  EXPECT_THAT(
      text, HasSubstr("device=\"n0:1\",virtual_worker=\"0\",stage=\"1\",replica=\"0\"} 1048576\n"));
  EXPECT_THAT(text, HasSubstr("hetpipe_run_active{run=\"/runs/\\\"a\\\"\"} 0\n"));
}

}  // namespace prometheus_test
}  // namespace hetpipe
