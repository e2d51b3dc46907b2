// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"

// What the actions of a run took, as CSV (docs/simulator.md#recorded-times): `hetpipe trace export`
// writes it, `hetpipe simulate --durations` replays it.
namespace hetpipe {

// What a row is the time of: an action that computes, or one that is waited for.
enum class Timed {
  forward,
  backward,
  weight_gradient,
  recompute,
  update,
  activations,  // what a forward waits for: since the last of its senders had computed it
  gradients,    // what a backward waits for, likewise
  sum,          // of gradients: since the last of those that share it had handed over its own
  snapshot,     // of the servers' weights, at the gate of a minibatch (replay.h)
};
std::string_view to_string(Timed what);
constexpr bool computes(Timed what) { return what <= Timed::update; }

// A replica of a stage.
struct RecordedPlace {
  int virtual_worker = 0;
  int stage = 0;
  int replica = 0;
  auto operator<=>(const RecordedPlace&) const = default;
};
std::string to_string(const RecordedPlace& where);  // "virtual worker 0, stage 1, replica 0"

struct Duration {
  RecordedPlace where{};
  Minibatch minibatch = 0;
  int micro = 0;  // 0 of what belongs to a whole minibatch
  Timed what = Timed::forward;
  double seconds = 0;
  int line = 0;  // of the file
};

class Durations {
 public:
  Durations() = default;
  // Each action once; `rest`: rows of actions that follow from the others.
  explicit Durations(std::vector<Duration> rows, std::string file = {}, std::size_t rest = 0);

  const std::vector<Duration>& rows() const { return rows_; }  // in order
  const std::string& file() const { return file_; }
  std::size_t rest() const { return rest_; }
  Minibatch first() const { return first_; }
  Minibatch minibatches() const { return end_ - first_; }  // from the first to the last ...
  Minibatch minibatches_of(int virtual_worker) const;      // ... of this one
  bool has(Timed what) const;                              // of any action

  // The row of an action; null where there is none.
  const Duration* find(Timed what, const RecordedPlace& where, Minibatch minibatch,
                       int micro) const;
  // Of all rows of a stage's replica and a kind.
  std::optional<double> median(Timed what, const RecordedPlace& where) const;

 private:
  std::vector<Duration> rows_;
  std::string file_;
  std::size_t rest_ = 0;
  Minibatch first_ = 0;
  Minibatch end_ = 0;
};

// UserError with every problem of the file and its line.
Durations parse_durations(std::string_view text, const std::string& file);
std::string to_csv(const Durations& durations);

}  // namespace hetpipe
