// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "partitioner/schedule/schedule.h"
#include "runtime/pipeline/pace.h"
#include "runtime/pipeline/rank_service.h"
#include "runtime/pipeline/reports.h"
#include "runtime/pipeline/stage.h"

namespace hetpipe {

// A stage among its neighbours: which rank each is, and how tensors go to and come from them.
struct Neighbourhood {
  VirtualWorkerId virtual_worker;
  std::vector<Rank> rank_of_stage;
  std::function<int(Minibatch)> samples;  // of a minibatch of this virtual worker
};

// Moves a stage's activations and gradients. One receive per direction is posted ahead of its
// action, so that transfers overlap with compute; evaluations use the forward channel too, and
// nothing is posted across them. Waiting is booked as transfer (the message was on its way) or
// bubble (it had not been sent).
class StageMessages {
 public:
  // `actions` and the others outlive this.
  StageMessages(Neighbourhood neighbours, const StageActions& actions, Stage& stage,
                RankService& service, Pace& pace, RankReport& report);

  // Nothing will come of this minibatch and those after it.
  void stop_before(Minibatch end);
  // Posts what may be posted ahead of actions[next].
  void post_ahead(std::size_t next);

  struct Arrived {
    std::vector<Packed> tensors;
    Label label = 0;  // of the minibatch's weights
  };
  // The tensors of the receive at actions[action]; waits for them.
  Arrived take(std::size_t action);
  Payload payload(std::size_t action) const { return payloads_[action]; }

  void send_activations(const Pass& pass, Minibatch p, Label label);
  void send_gradients(Pass& pass, Minibatch p, Label label);

  // A batch of the test set, in the order of the batches.
  std::vector<Packed> take_test_batch(std::int64_t number, std::int64_t samples);
  void send_test_batch(const Pass& pass, std::int64_t number);

  void release_sent();  // gives back what has left
  void finish();        // waits until everything has

 private:
  struct Posted {
    std::size_t action = 0;
    std::vector<Packed> tensors;
    std::vector<Operation> operations;
  };
  struct Coming {  // a receive that has not been posted
    std::size_t action = 0;
    std::size_t not_before = 0;  // the action behind the evaluation that stands before it
  };
  struct Sending {
    Operation operation;
    Buffer data;
  };

  const std::vector<Transfer>& transfers_of(Payload payload) const;
  std::optional<Posted>& posted(Payload payload);
  std::deque<Coming>& coming_of(Payload payload);
  void post(std::size_t action);
  void wait(const Operation& operation, const Transfer& transfer, Payload payload,
            MessageHeader expected);
  void send(Buffer data, const Transfer& transfer, Payload payload, const MessageHeader& header);
  Rank peer(const Transfer& transfer) const;

  Neighbourhood neighbours_;
  const StageActions& actions_;
  std::vector<Payload> payloads_;  // of each action that sends or receives
  Stage& stage_;
  RankService& service_;
  Pace& pace_;
  RankReport& report_;
  std::deque<Coming> activations_coming_;  // in the schedule's order
  std::deque<Coming> gradients_coming_;
  std::optional<Posted> activations_;
  std::optional<Posted> gradients_;
  std::deque<Sending> sending_;
};

}  // namespace hetpipe
