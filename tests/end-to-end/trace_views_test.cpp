// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/json.h"
#include "base/text.h"
#include "launch/trace/event_files.h"
#include "launch/trace/time_shares.h"
#include "tests/end-to-end/training.h"

// What `hetpipe trace` makes of the traces that trainings write.
namespace hetpipe {
namespace trace_views_test {

std::vector<Trace> traces_of(const std::string& device) {
  Training training;
  training.device = device;
  training.workers = {{.minibatch = 8, .stage_ends = {3}}, {.minibatch = 8, .stage_ends = {4}}};
  training.in_flight = 2;
  return Bench(training).train().traces;
}

double sum(const TimeShares& shares) {
  return shares.computing + shares.evaluation + shares.checkpoint + shares.server +
         shares.receiving + shares.sending + shares.idle;
}

TEST(TraceViews, EverySecondIsSomeShare) {
  for (const std::string device : {"cpu", "offload"}) {
    const std::vector<Trace> traces = traces_of(device);
    const AlignedTraces all = aligned(traces);
    ASSERT_EQ(all.ranks.size(), traces.size());
    EXPECT_GT(all.seconds, 0);
    for (const AlignedRank& rank : all.ranks) {
      const TimeShares shares = time_shares(rank, all.seconds);
      EXPECT_NEAR(sum(shares), all.seconds, 1e-9 * all.seconds);
      double computing = 0;  // one after the other, so none is hidden behind another
      for (const AlignedEvent& at : rank.events) {
        EXPECT_GE(at.start, 0);
        if (std::string("FBWRU").find(at.event->kind) != std::string::npos) {
          computing += at.seconds();
        }
      }
      EXPECT_NEAR(shares.computing, computing, 1e-9 * all.seconds) << device;
      EXPECT_EQ(computing > 0, rank.trace->info.virtual_worker >= 0);
    }
  }
}

// A viewer draws slices of a track that overlap without one holding the other as nonsense.
TEST(TraceViews, ChromeShowsEveryEventAndNoneOverlapOnATrack) {
  for (const std::string device : {"cpu", "offload"}) {
    const std::vector<Trace> traces = traces_of(device);
    const Json chrome = Json::parse(events_to_chrome(aligned(traces)));
    std::map<std::int64_t, std::vector<std::pair<double, double>>> tracks;
    std::size_t named = 0;
    for (const Json& event : chrome.at("traceEvents").items()) {
      if (event.at("ph").get<std::string>() == "M") {
        named += event.at("name").get<std::string>() == "thread_name" ? 1 : 0;
        continue;
      }
      const double start = event.at("ts").get<double>();
      tracks[event.at("tid").get<std::int64_t>()].emplace_back(
          start, start + event.at("dur").get<double>());
    }
    std::size_t events = 0, recorded = 0;
    for (const Trace& trace : traces) recorded += trace.events.size();
    for (auto& [thread, slices] : tracks) {
      events += slices.size();
      std::sort(slices.begin(), slices.end());
      for (std::size_t i = 1; i < slices.size(); ++i) {
        EXPECT_GE(slices[i].first, slices[i - 1].second - 0.002) << device << " track " << thread;
      }
    }
    EXPECT_EQ(events, recorded);
    EXPECT_EQ(named, 4 * traces.size());
  }
}

TEST(TraceViews, CsvHasALinePerEvent) {
  const std::vector<Trace> traces = traces_of("cpu");
  std::size_t recorded = 0;
  for (const Trace& trace : traces) recorded += trace.events.size();
  const std::vector<std::string> lines = split(events_to_csv(aligned(traces)), '\n');
  ASSERT_EQ(lines.size(), recorded + 2);  // the header, and nothing behind the last
  for (std::size_t i = 0; i <= recorded; ++i) EXPECT_EQ(split(lines[i], ',').size(), 15u);
}

// Two hosts whose clocks differ by 5 s, the second of which runs 1e-3 fast.
TEST(TraceViews, HostsClocksAreBroughtTogether) {
  std::vector<Trace> traces = traces_of("cpu");
  const AlignedTraces before = aligned(traces);
  // The last stage of the last virtual worker; servers are behind it.
  std::size_t r = traces.size() - 1;
  while (traces[r].info.virtual_worker < 0) --r;
  Trace& moved = traces[r];
  ASSERT_GT(moved.info.rank, 0);
  moved.info.host = "elsewhere";
  const std::int64_t first = moved.events.front().start_ns;
  const auto skewed = [&](std::int64_t ns) {
    return ns - 5'000'000'000 + static_cast<std::int64_t>(1e-3 * static_cast<double>(ns - first));
  };
  for (TraceEvent& event : moved.events) {
    event.start_ns = skewed(event.start_ns);
    event.end_ns = skewed(event.end_ns);
  }
  moved.clock = {5e9, -1e-3 / (1 + 1e-3), 1000};
  const AlignedTraces after = aligned(traces);
  ASSERT_EQ(after.ranks[r].events.size(), before.ranks[r].events.size());
  for (std::size_t i = 0; i < before.ranks[r].events.size(); ++i) {
    EXPECT_NEAR(after.ranks[r].events[i].start, before.ranks[r].events[i].start, 1e-7);
  }
  EXPECT_DOUBLE_EQ(after.ranks[r].uncertainty, 1e-6);
  // A clock that was never compared is not guessed.
  moved.clock = {0, 0, -1};
  EXPECT_THROW(aligned(traces), UserError);
}

}  // namespace trace_views_test
}  // namespace hetpipe
