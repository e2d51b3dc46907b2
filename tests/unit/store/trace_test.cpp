// SPDX-License-Identifier: Apache-2.0
#include "runtime/store/trace.h"

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <future>
#include <thread>

#include "base/error.h"
#include "runtime/store/hdf5.h"
#include "tests/main/patience.h"
#include "tests/unit/data/scratch_folder.h"

namespace hetpipe {
namespace trace_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TraceEvent event(std::int64_t number) {
  return {1'000'000'007 * number,
          1'000'000'007 * number + 5,
          "FBWRSVUPLEC"[number % 11],
          number,
          static_cast<std::int32_t>(number % 4),
          static_cast<std::int32_t>(number % 2),
          number / 3 - 1,
          number << 33,
          static_cast<std::int32_t>(32 + number)};
}

std::vector<TraceEvent> events(std::int64_t count) {
  std::vector<TraceEvent> all;
  for (std::int64_t i = 0; i < count; ++i) all.push_back(event(i));
  return all;
}

const TraceInfo kInfo{3, "node-b", "n1:0", 1, 2, 0};

TEST(Trace, ReadsBackWhatWasRecorded) {
  const ScratchFolder folder;
  {
    TraceWriter writer(folder / "rank3.h5", kInfo);
    EXPECT_FALSE(read_trace(folder / "rank3.h5").clock.compared());
    writer.set_clock({100, 0, 20});
    for (std::int64_t i = 0; i < 2500; ++i) {
      writer.record(event(i));
      if (i % 100 == 99) {
        writer.metric("loss", i / 100, 1.0 / static_cast<double>(i));
        writer.flush();
      }
    }
    writer.metric("throughput", 7, 530.5);
    writer.set_clock({110, 1e-6, 15});
  }
  const Trace trace = read_trace(folder / "rank3.h5");
  EXPECT_EQ(trace.info, kInfo);
  EXPECT_EQ(trace.clock, (ClockEstimate{110, 1e-6, 15}));
  EXPECT_EQ(trace.events, events(2500));
  ASSERT_EQ(trace.metrics.size(), 2u);
  ASSERT_EQ(trace.metrics.at("loss").size(), 25u);
  EXPECT_EQ(trace.metrics.at("loss")[24], (MetricPoint{24, 1.0 / 2499}));
  EXPECT_THAT(trace.metrics.at("throughput"), ElementsAre(MetricPoint{7, 530.5}));
}

TEST(Trace, EmptyIsATrace) {
  const ScratchFolder folder;
  { TraceWriter writer(folder / "a.h5", kInfo); }
  EXPECT_TRUE(read_trace(folder / "a.h5").events.empty());
}

TEST(Trace, FullBufferIsFlushed) {
  const ScratchFolder folder;
  TraceWriter writer(folder / "a.h5", kInfo, 10);
  for (std::int64_t i = 0; i < 25; ++i) writer.record(event(i));
  EXPECT_EQ(read_trace(folder / "a.h5").events, events(20));
}

// Another thread of the process is in the store until it is released.
class BusyStore {
 public:
  BusyStore()
      : thread_([this] {
          const hdf5::Session session;
          entered_.set_value();
          release_.get_future().wait();
        }) {
    entered_.get_future().wait();
  }
  void release() {
    release_.set_value();
    thread_.join();
  }

 private:
  std::promise<void> entered_;
  std::promise<void> release_;
  std::thread thread_;
};

TEST(Trace, BusyStoreIsNotWaitedFor) {
  const ScratchFolder folder;
  TraceWriter writer(folder / "a.h5", kInfo, 10);
  BusyStore busy;
  for (std::int64_t i = 0; i < 39; ++i) writer.record(event(i));  // would hang
  writer.flush();
  busy.release();
  EXPECT_TRUE(read_trace(folder / "a.h5").events.empty());
  writer.flush();
  EXPECT_EQ(read_trace(folder / "a.h5").events, events(39));
}

TEST(Trace, BuffersAreBounded) {
  const ScratchFolder folder;
  TraceWriter writer(folder / "a.h5", kInfo, 10);
  BusyStore busy;
  std::atomic<std::int64_t> recorded{0};
  std::thread rank([&] {
    for (std::int64_t i = 0; i < 45; ++i, ++recorded) writer.record(event(i));
  });
  EXPECT_TRUE(test::comes_true([&] { return recorded >= 39; })) << recorded << " events";
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(recorded, 39);  // the 40th waits
  busy.release();
  rank.join();
  writer.flush();
  EXPECT_EQ(read_trace(folder / "a.h5").events, events(45));
}

TEST(Trace, WhatWasFlushedSurvivesAKill) {
  const ScratchFolder folder;
  const pid_t child = ::fork();
  if (child == 0) {
    TraceWriter writer(folder / "a.h5", kInfo);
    for (std::int64_t i = 0; i < 50; ++i) writer.record(event(i));
    writer.flush();
    writer.record(event(50));
    ::raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(read_trace(folder / "a.h5").events, events(50));
}

TEST(Trace, NoSpaceEndsTheTraceAlone) {
  const ScratchFolder folder;
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);  // the write fails instead
  std::string text;
  {
    TraceWriter writer(folder / "a.h5", kInfo, 1'000'000);
    for (std::int64_t i = 0; i < 1000; ++i) writer.record(event(i));
    writer.flush();
    for (std::int64_t i = 0; i < 100'000; ++i) writer.record(event(i));
    rlimit small = before;
    small.rlim_cur = 1'000'000;
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    text = error_of<SystemError>([&] { writer.flush(); });
    EXPECT_TRUE(writer.failed());
    writer.record(event(0));
    writer.metric("loss", 0, 1);
    writer.flush();
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  }
  std::signal(SIGXFSZ, handler);
  EXPECT_THAT(text, HasSubstr("cannot extend " + (folder / "a.h5").string()));
  EXPECT_EQ(read_trace(folder / "a.h5").events, events(1000));
}

TEST(TraceMaster, LinksRanksAndMovesWithThem) {
  const ScratchFolder folder;
  const std::filesystem::path run = folder / "run";
  std::filesystem::create_directories(run / "trace");
  std::vector<std::filesystem::path> files;
  for (int rank = 0; rank < 3; ++rank) {
    files.push_back(run / "trace" / ("rank" + std::to_string(rank) + ".h5"));
    TraceInfo info = kInfo;
    info.rank = rank;
    TraceWriter writer(files.back(), info);
    writer.record(event(rank));
  }
  write_trace_master(run / "trace.h5", files);
  std::filesystem::rename(run, folder / "moved");
  const std::vector<Trace> traces = read_trace_master(folder / "moved/trace.h5");
  ASSERT_EQ(traces.size(), 3u);
  for (int rank = 0; rank < 3; ++rank) {
    const Trace& trace = traces[static_cast<std::size_t>(rank)];
    EXPECT_EQ(trace.info.rank, rank);
    EXPECT_THAT(trace.events, ElementsAre(event(rank)));
  }
}

TEST(TraceMaster, MissingRankIsNamed) {
  const ScratchFolder folder;
  write_trace_master(folder / "trace.h5", {folder / "rank0.h5"});
  EXPECT_THAT(error_of<UserError>([&] { read_trace_master(folder / "trace.h5"); }),
              HasSubstr("following link rank0"));
}

TEST(Trace, OtherFilesAreRefused) {
  const ScratchFolder folder;
  write_plain(folder / "a.h5", "no HDF5");
  EXPECT_THAT(error_of<UserError>([&] { read_trace(folder / "a.h5"); }),
              HasSubstr("cannot be read as a trace"));
  write_trace_master(folder / "trace.h5", {});
  EXPECT_THAT(error_of<UserError>([&] { read_trace(folder / "trace.h5"); }),
              HasSubstr("is 'hetpipe-trace-master'"));
  EXPECT_THAT(error_of<UserError>([&] { read_trace(folder / "none.h5"); }),
              HasSubstr("does not exist"));
}

TEST(Trace, UnwritableFolderIsTheMachinesFailure) {
  const ScratchFolder folder;
  EXPECT_THAT(error_of<SystemError>([&] { TraceWriter(folder / "none/a.h5", kInfo); }),
              HasSubstr("none/a.h5"));
}

}  // namespace trace_test
}  // namespace hetpipe
