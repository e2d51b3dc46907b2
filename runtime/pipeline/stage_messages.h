// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "partitioner/schedule/messages_ahead.h"
#include "partitioner/schedule/schedule.h"
#include "runtime/pipeline/pace.h"
#include "runtime/pipeline/rank_service.h"
#include "runtime/pipeline/reports.h"
#include "runtime/pipeline/spare_buffers.h"
#include "runtime/pipeline/stage.h"
#include "runtime/pipeline/work_queue.h"
#include "runtime/pipeline/worker_place.h"
#include "runtime/transport/device_transport.h"

namespace hetpipe {

// Moves a rank's activations and gradients to and from the other stages of its virtual worker. A
// tensor goes straight from its producer's stage to each consuming stage; between replicas of
// unequal shares, each pair exchanges the samples that both compute.
//
// What a peer sends, and in which order, follows from its schedule: receives are posted in that
// order, one ahead of what is needed where memory is counted for it, so that transfers overlap with
// compute whatever the order here. Waiting is counted as transfer (the message was in transit) or
// bubble (it had not been sent).
class StageMessages {
 public:
  // `chunks`: the rank's stages. All outlive this. Messages of `kept` have memory from the start;
  // an activation that would be one more waits until an earlier one has left.
  StageMessages(const WorkerPlace& place, std::vector<Stage*> chunks, DeviceTransport& transport,
                RankService& service, Pace& pace, RankReport& report, WorkQueue& ahead,
                const MessagesAhead& kept);

  // Posts the first receives: from now on the transport is as it stays.
  void begin() { post_ahead(); }
  // Nothing will come of this minibatch and those after it.
  void stop_before(Minibatch end);

  struct Arrived {
    std::vector<std::vector<Packed>> tensors;  // [micro-batch of the action][transfer]
    // As a message has come, of one side or the other:
    std::optional<Label> label{};         // of the weights that made activations
    std::optional<int> scale_exponent{};  // of the loss that gradients are of
  };
  // The tensors of a V; waits for them.
  Arrived take(Payload payload, const Action& action);
  // Before the B of a pass, which an S sends alone or with others: where its gradients are made.
  void place_gradients(const Action& action, Pass& pass);
  // What an S sends of its passes, which are those of the action's micro-batches.
  void send_activations(const Action& action, const std::vector<Pass*>& passes, Label label);
  void send_gradients(const Action& action, const std::vector<Pass*>& passes, int scale_exponent);

  // A batch of the test set, in the order of the batches.
  std::vector<Packed> take_test_batch(int chunk, std::int64_t number, std::int64_t samples);
  void send_test_batch(int chunk, const Pass& pass, std::int64_t number, std::int64_t samples);

  void release_sent();  // releases what has been sent
  void finish();        // waits until everything has been sent

 private:
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
    std::deque<MessagePiece> coming;          // of the send looked at last
    std::optional<MessagePiece::Key> newest;  // posted
  };
  struct Sending {
    Operation operation;
    Buffer data;
    Channel channel = Channel::forward;
    std::size_t bytes = 0;  // of the message
    Rank to;
  };

  const std::vector<Transfer>& along(Payload payload, const Stage& stage, bool arriving) const;
  std::int64_t message_bytes(const MessagePiece& piece) const;
  std::int64_t message_bytes(const MessagePiece& piece, std::int64_t samples) const;
  void keep(const MessagesAhead& kept);
  void wait_for_room(const MessagePiece& piece);
  void wait_until_leaving(const MessagePiece& piece, Rank to, int more);
  // Another message of this payload is about to take memory: notes what still waits to leave.
  void note_queued(Payload payload);

  bool look_further(Source& source);
  void post_next(Source& source);
  void post_ahead();
  Posted claim(const MessagePiece& piece);
  Packed unpack(const std::vector<MessagePiece>& from, std::vector<Posted>& messages,
                std::vector<std::byte*>& read, const Transfer& transfer, int micro);
  void send(const MessagePiece& piece, Buffer data, const MessageHeader& header);
  struct Waited {
    std::int64_t start_ns = 0;
    std::int64_t end_ns = 0;
  };
  // `what`: "activation of minibatch".
  Waited wait(const Operation& operation, Rank peer, const char* what, std::int64_t number,
              int stage);
  void send(Buffer data, std::size_t bytes, Rank to, Channel channel, const MessageHeader& header);

  const WorkerPlace& place_;
  std::vector<Stage*> chunks_;
  DeviceTransport& transport_;
  RankService& service_;
  Pace& pace_;
  RankReport& report_;
  WorkQueue& ahead_;
  Device& device_;
  Stream& stream_;
  const int activations_ahead_;
  SpareBuffers for_activations_;
  SpareBuffers for_gradients_;
  std::deque<Source> sources_;
  std::map<MessagePiece::Key, Posted> posted_;
  std::deque<Sending> sending_;
  std::deque<Sending> sending_tests_;
};

}  // namespace hetpipe
