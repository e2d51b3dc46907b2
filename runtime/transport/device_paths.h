// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/device.h"
#include "runtime/transport/device_path.h"
#include "runtime/transport/messages.h"

namespace hetpipe {

// The result for the path to one peer.
struct PathResult {
  Rank peer;
  PathKind kind = PathKind::staged;
  std::string why;  // staged although another was to be tried
};

// The direct paths of one rank: made and tried before a run, each with its peer, which does the
// same. Two ends tell each other whether they have one, try it with a small and a large message
// each way, and use it only if both found their bytes within the time given; otherwise messages
// between them are staged. All words between two ends are control messages; the trial has a channel
// of its own, so that the rest of a failed one disturbs no other.
//
// Paths of NCCL are begun one after another, by ascending peers: as this is one order of all pairs
// of ranks, there is always a path whose turn it is at both ends.
//
//   this end: offer -------- connect, trial ---------- verdict    in use where both say yes
//   the peer: offer -------- connect, trial ---------- verdict
class DevicePaths {
 public:
  // SystemError if there is none, with the reason.
  using Make = std::function<std::unique_ptr<DevicePath>()>;

  // Device and stream outlive this.
  DevicePaths(Transport& transport, Device& device, Stream& stream, double trial_seconds);
  DevicePaths(const DevicePaths&) = delete;
  DevicePaths& operator=(const DevicePaths&) = delete;
  ~DevicePaths();

  void begin(Rank peer, PathKind kind, Make make);
  void take(Rank from, const PathWord& word);  // that came for this rank
  bool poll();                                 // true when something moved
  // Every path that was begun is in use, or will not be.
  bool tried() const;
  std::vector<PathResult> results() const;
  std::string waiting_for() const;

  // Null: staged.
  DevicePath* path(Rank peer, Channel channel) const;
  // For the maker of a path: how its control messages reach the peer's.
  std::function<void(const std::string&)> words_to(Rank peer);
  bool idle() const;  // of those in use

  // At the end, when nothing is in transit: releases what is the peers'; own memory may be given
  // back once they have done the same.
  void close();
  bool closed() const;

 private:
  using Step = PathWord::Step;
  struct Trial;
  struct Answer {
    bool yes = false;
    std::string text;  // the offer, or why not
  };
  struct Way;

  void say(Rank to, Step step, bool yes, const std::string& text);
  void give_verdict(Way& way, bool yes, const std::string& why);
  bool has_its_turn(const Way& way) const;
  void offer(Way& way);
  bool advance(Way& way);

  Transport& transport_;
  Device& device_;
  Stream& stream_;
  double trial_seconds_;
  std::map<Rank, std::unique_ptr<Way>> ways_;
};

}  // namespace hetpipe
