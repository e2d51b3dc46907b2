// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "partitioner/schedule/schedule.h"
#include "runtime/data/sample_split.h"
#include "runtime/pipeline/message_cursor.h"
#include "runtime/pipeline/pace.h"
#include "runtime/pipeline/rank_service.h"
#include "runtime/pipeline/reports.h"
#include "runtime/pipeline/stage.h"

namespace hetpipe {

// Where a rank stands in its virtual worker: it computes chunk c of the model, stage c * positions
// + position, of its replica's share of the samples.
struct WorkerPlace {
  VirtualWorkerId virtual_worker;
  int position = 0;
  int replica = 0;
  std::vector<std::vector<Rank>> ranks;  // [stage][replica]
  std::vector<int> stage_end;            // one past the last layer of each stage
  SampleSplit split{1, {}};
  // How many micro-batches one action takes.
  bool whole_minibatches = false;                  // all, in F and B alike (continuous 1F1B)
  bool backward_by_minibatch = false;              // all, in B alone (nF1B)
  std::int64_t minibatch = 0;                      // samples of a whole one
  std::function<std::int64_t(Minibatch)> samples;  // of a minibatch of this virtual worker
  std::shared_ptr<const Schedule> schedule;        // of all its positions

  int positions() const { return static_cast<int>(schedule->size()); }
  int stages() const { return static_cast<int>(stage_end.size()); }
  StageId stage(int chunk) const { return StageId{chunk * positions() + position}; }
  const StageActions& actions() const { return (*schedule)[static_cast<std::size_t>(position)]; }

  // Micro-batches [first, end) that an F (or V, S, R of its side) and a B take.
  struct Micros {
    int first = 0;
    int end = 1;
  };
  Micros micros(Payload side, int micro) const;
};

// Moves a rank's activations and gradients to and from the other stages of its virtual worker. A
// tensor goes straight from its producer's stage to each consuming stage; between replicas of
// unequal shares, each pair exchanges the samples that both compute.
//
// What a peer sends, and in which order, follows from its schedule: receives are posted in that
// order, one ahead of what is needed, so that transfers overlap with compute whatever the order
// here. Waiting is booked as transfer (the message was on its
// way) or bubble (it had not been sent).
class StageMessages {
 public:
  // `chunks`: the rank's stages. All outlive this.
  StageMessages(const WorkerPlace& place, std::vector<Stage*> chunks, RankService& service,
                Pace& pace, RankReport& report);

  // Nothing will come of this minibatch and those after it.
  void stop_before(Minibatch end);

  struct Arrived {
    std::vector<std::vector<Packed>> tensors;  // [micro-batch of the action][transfer]
    std::optional<Label> label{};              // of the minibatch's weights
  };
  // The tensors of a V; waits for them.
  Arrived take(Payload payload, const Action& action);
  // What an S sends of its passes, which are those of the action's micro-batches.
  void send_activations(const Action& action, const std::vector<Pass*>& passes, Label label);
  void send_gradients(const Action& action, const std::vector<Pass*>& passes, Label label);

  // A batch of the test set, in the order of the batches.
  std::vector<Packed> take_test_batch(int chunk, std::int64_t number, std::int64_t samples);
  void send_test_batch(int chunk, const Pass& pass, std::int64_t number, std::int64_t samples);

  void release_sent();  // gives back what has left
  void finish();        // waits until everything has

 private:
  // A message between two replicas of two stages, of some micro-batches.
  struct Piece {
    Payload payload = Payload::activations;
    const Transfer* transfer = nullptr;
    Minibatch minibatch = 0;
    WorkerPlace::Micros micros;
    int sender = 0;  // replica
    int receiver = 0;
  };
  using Key = std::tuple<Payload, int, int, Minibatch, int, int>;
  struct Posted {
    Buffer data;
    Operation operation;
  };
  // What one peer sends of one payload, in its order.
  struct Source {
    Rank peer;
    int position = 0;
    int replica = 0;
    Payload payload = Payload::activations;
    MessageCursor cursor;
    std::deque<Piece> coming;   // of the send looked at last
    std::optional<Key> newest;  // posted
  };
  struct Sending {
    Operation operation;
    Buffer data;
  };

  const std::vector<Transfer>& along(Payload payload, const Stage& stage, bool arriving) const;
  static Key key_of(const Piece& piece);
  SampleSpan common_samples(const Piece& piece, int micro) const;
  SampleSpan common_samples(const Piece& piece, int micro, std::int64_t samples) const;
  bool is_sent(const Piece& piece) const;
  SampleSpan own_samples(const Piece& piece, int micro, bool arriving) const;
  std::int64_t bytes_of(const Piece& piece) const;
  std::vector<Piece> pieces(Payload payload, const Transfer& transfer, Minibatch minibatch,
                            WorkerPlace::Micros micros, bool arriving) const;
  Rank other_end(const Piece& piece, bool arriving) const;
  std::int32_t part_of(const Piece& piece) const;

  bool look_further(Source& source);
  void post_next(Source& source);
  void post_ahead();
  Posted claim(const Piece& piece);
  Packed unpack(const std::vector<Piece>& from, std::vector<Posted>& messages,
                std::vector<std::byte*>& read, const Transfer& transfer, int micro);
  void send(const Piece& piece, Buffer data, Label label);
  void wait(const Operation& operation, const Transfer& transfer, Payload payload, Rank peer,
            const MessageHeader& expected);
  void send(Buffer data, Rank to, Channel channel, const MessageHeader& header);

  const WorkerPlace& place_;
  std::vector<Stage*> chunks_;
  RankService& service_;
  Pace& pace_;
  RankReport& report_;
  Device& device_;
  Stream& stream_;
  std::deque<Source> sources_;
  std::map<Key, Posted> posted_;
  std::deque<Sending> sending_;
};

}  // namespace hetpipe
