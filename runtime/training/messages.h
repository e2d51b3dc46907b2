// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <tuple>

#include "base/error.h"
#include "base/ids.h"
#include "runtime/pipeline/reports.h"
#include "runtime/sync/messages.h"
#include "runtime/transport/device_path.h"

// What ranks tell rank 0, and it tells them.
namespace hetpipe {

enum class TrainingKind : std::int32_t {
  wave_done = first_after<SyncKind>,
  label_evaluated,
  rank_done,
  checkpoint_written,
  checkpoint_failed,
  checkpoint_left_out,
  path_found,
  rank_warm,
  clock_question,
  clock_answer,
  clock_known,
  run_over,
  end
};

// To the reporter.
struct WaveDone {
  static constexpr auto kKind = TrainingKind::wave_done;
  WaveReport report;
};
struct LabelEvaluated {
  static constexpr auto kKind = TrainingKind::label_evaluated;
  EvaluationReport report;
};
struct RankDone {
  static constexpr auto kKind = TrainingKind::rank_done;
  RankReport report;
};
struct CheckpointWritten {
  static constexpr auto kKind = TrainingKind::checkpoint_written;
  Label label = 0;
  std::string path{};
  static auto fields(auto& m) { return std::tie(m.label, m.path); }
};
struct CheckpointFailed {
  static constexpr auto kKind = TrainingKind::checkpoint_failed;
  Label label = 0;
  ExitCode code = ExitCode::done;  // that the run ends with where it was the last one
  std::string why{};
  static auto fields(auto& m) { return std::tie(m.label, m.code, m.why); }
};
struct CheckpointLeftOut {
  static constexpr auto kKind = TrainingKind::checkpoint_left_out;
  Label label = 0;
};
// From the lower one of two ranks: how messages between their devices go.
struct PathFound {
  static constexpr auto kKind = TrainingKind::path_found;
  Rank peer;
  PathKind path = PathKind::staged;
  std::string why{};  // staged
  static auto fields(auto& m) { return std::tie(m.peer, m.path, m.why); }
};

// To the ranks of links that will be opened (WarmRanks).
struct RankWarm {
  static constexpr auto kKind = TrainingKind::rank_warm;
};

// Clocks: any rank asks rank 0, several times, and says when it has asked enough.
struct ClockQuestion {
  static constexpr auto kKind = TrainingKind::clock_question;
};
struct ClockAnswer {
  static constexpr auto kKind = TrainingKind::clock_answer;
  std::int64_t ns = 0;
};
struct ClockKnown {
  static constexpr auto kKind = TrainingKind::clock_known;
};

// From the reporter to all: everything has been said.
struct RunOver {
  static constexpr auto kKind = TrainingKind::run_over;
  ExitCode code = ExitCode::done;
};

static_assert(kinds_differ<WaveDone, LabelEvaluated, RankDone, CheckpointWritten, CheckpointFailed,
                           CheckpointLeftOut, PathFound, RankWarm, ClockQuestion, ClockAnswer,
                           ClockKnown, RunOver>());

}  // namespace hetpipe
