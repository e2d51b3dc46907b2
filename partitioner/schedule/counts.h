// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "partitioner/schedule/generate.h"
#include "partitioner/schedule/messages_ahead.h"

// What a stage holds under a schedule, and how old its weights are: counted from the
// actions themselves, never from a closed form.
namespace hetpipe {

// Of one device of the pipeline, the most at any moment. This follows from the order of its actions
// alone, whatever they take.
struct HeldCounts {
  // Micro-batches of each chunk between their F and their B (their W where it is apart, their
  // minibatch's B in nF1B); where one action computes a whole minibatch, that is one. Where chunks
  // hold most at different moments each such moment is an entry: what they need together is the
  // largest over the entries.
  std::vector<std::vector<int>> micro_batches;
  int together = 0;  // the largest sum of an entry
  // Likewise, while a gradient is made that is added to another of its minibatch: by a B, or a W
  // where it is apart, that is not the first.
  int together_adding = 0;
  int minibatches = 0;  // between their first F and their last B or W
  int backwards = 0;  // micro-batches whose B has begun and whose W, where it is apart, is to come
  // Versions older than the newest that begun forwards of a minibatch still need: another
  // minibatch's update came between its micro-batches. Those in a backward are there beside a
  // gradient.
  int old_versions = 0;
  int old_versions_in_backward = 0;
  // Passes of minibatches that have begun and are not through all micro-batches: as many
  // predictions are kept where one serves a pass (XPipe's bellwether). While a backward pass is
  // under way so is a gradient, to which later micro-batches add theirs. Entries that another one
  // covers are left out.
  struct Passes {
    int forward = 0;
    int backward = 0;
    bool adds = false;  // while a B that is not its minibatch's first is computed
    bool operator==(const Passes&) const = default;
  };
  std::vector<Passes> passes;
  int passes_at_once() const;  // the largest sum of an entry
  MessagesAhead ahead;
  bool operator==(const HeldCounts&) const = default;
};
std::vector<HeldCounts> count_held(const Schedule& schedule);

// Of the schedule of a rule when it runs on and on. Counting takes a while where stages and
// micro-batches are many; a planner keeps one of these and asks as often as it likes.
class HeldTable {
 public:
  // request.first and request.end are of no concern.
  const std::vector<HeldCounts>& of(ScheduleRule rule, const ScheduleRequest& request);

 private:
  using Key = std::tuple<ScheduleRule, int, int, int, int, std::optional<int>>;
  std::map<Key, std::vector<HeldCounts>> known_;
};

// The request with as many minibatches as it takes to come to a steady state and out of it.
ScheduleRequest steady_request(ScheduleRule rule, ScheduleRequest request);

// How old the weights are, at one stage.
struct VersionDifference {
  int forward = 0;
  int backward = 0;
  bool operator==(const VersionDifference&) const = default;
};

// For these the schedule is played in slots on equal stages: F one slot, B one slot. The length of
// B matters: a gradient takes k B to come from stage k to stage 0, in which a stage updates once
// per F and B, so that k / 2 updates come in between where B = F (SpecTrain's floor(k / 2)), but 2
// k / 3 where B = 2 F. Each is the largest over all minibatches, which is the steady part's if
// there is one.

// Updates of other minibatches at a stage from the start of a minibatch's F (B) there until its
// last B has left stage 0: how far a weight prediction must look ahead so that all passes of a
// minibatch see one version (SpecTrain: arXiv 1809.02839).
std::vector<VersionDifference> count_version_differences(const Schedule& schedule);

// The same in XPipe's reading (arXiv 1911.04610), for the minibatch's first micro-batch: backwards
// of micro-batches in that time, the own ones but the last included, as a share of a minibatch,
// rounded to an integer (halves to the even one). From a forward on, half of a pair F, B is half a
// backward (the k / 2 of its formula); from a backward on, whole ones count (its floor(k / 2)).
// Where a minibatch is one micro-batch it is equal to the above but for that k / 2.
std::vector<VersionDifference> count_prediction_steps(const Schedule& schedule);

// The minibatches by which a backward pass lags: when B of minibatch p begins, p - q, where q is
// the newest whose B has left stage 0. 1 is no staleness; v means v interleaved sequences of
// updates (TiMePReSt: arXiv 2410.14312).
int count_update_sequences(const Schedule& schedule);

}  // namespace hetpipe
