// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/pipeline/message_memory.h"
#include "runtime/pipeline/pace.h"
#include "runtime/pipeline/pass_weights.h"
#include "runtime/pipeline/rank_service.h"
#include "runtime/pipeline/reports.h"
#include "runtime/pipeline/stage.h"
#include "runtime/pipeline/work_queue.h"
#include "runtime/pipeline/worker_place.h"
#include "runtime/transport/device_transport.h"

namespace hetpipe {

// What a rank exchanges with the other stages of its virtual worker because layers of one stage use
// a parameter of another (docs/wsp.md#tied-weights). The owner's stage has it among its own:
//
//   weights    owner -> each stage that uses it: what its first F(p) computes with, before theirs
//   gradient   last stage that uses it -> the one before -> ... -> owner: each adds its parts, from
//              its last layer to its first, to the sum that comes; once for each update
//
// Replica r deals with replica r modulo the number of those in the earlier one of two stages.
//
// What is on its way takes no memory without end, whatever a slow link or peer does. Weights lie
// in the version that B will want, where that is kept until then, else in `ahead` copies; parts of
// the gradient in what they were summed in, of which there are as many, two at least; one where the
// pipeline is flushed, before which it has arrived.
//
// No deadlock: F(p) at a user waits for F(p) at the owner, whose output it needs anyway. Who adds
// up waits for stages behind, which have computed their B before it could, and which wait for
// nothing but stages behind them. Who waits for memory waits for a stage behind to take the weights
// or for one before to take the part of an earlier minibatch: stages are not further apart than
// `ahead`, not where one of them evaluates either.
class TiedWeights {
 public:
  struct Rule {
    bool keeps = true;     // B of a use: with what its F had; else with the newest F's that began
    bool by_wave = false;  // weights change from wave to wave alone
    bool keeps_version = true;  // of an F, until its B
    int ahead = 1;              // minibatches, of a stage before another (tied_ahead)
    bool flushed = false;       // the pipeline, before each update
    int in_flight = 1;
    Minibatch first = 0;  // of the run
    Minibatch end = 0;    // one past the last
  };

  // `chunks`: the rank's stages. All outlive this.
  TiedWeights(const WorkerPlace& place, std::vector<Stage*> chunks, const Rule& rule,
              DeviceTransport& transport, RankService& service, Pace& pace, RankReport& report,
              WorkQueue& ahead);

  // Before the first F of minibatch p at a chunk: waits for what it uses of other stages' weights.
  void take(Minibatch p, int chunk);
  // In the first F of p at a chunk, whose own weights these are: sends what other stages use.
  void give(Minibatch p, int chunk, const PassWeights::Version& version, const float* own);
  // The foreign weights of an F; those of a pass's R, B and W, the same for all of these.
  const float* of_forward(Minibatch p, int chunk) const;
  const float* of_backward(Minibatch p, int chunk, int pass);
  void forwards_done(Minibatch p);  // at all chunks
  void backward_done(Minibatch p, int chunk, int pass);
  void minibatch_done(Minibatch p);

  // What the rank's passes sum the gradients of its uses in, for the next update; null without any.
  // Waits for what is on its way.
  std::shared_ptr<Buffer> memory_of_uses();
  // Before the update of p: gradients of the rank's own parameters become those of all uses in
  // the virtual worker (among replicas of a stage: each has its part of them). `uses`: their parts
  // here, in that memory. Both flat, chunk after chunk. Waits for later stages.
  void add_up(Minibatch p, const Buffer& own, const std::shared_ptr<Buffer>& uses);

  // Sends and waits for an evaluation's weights, likewise; the foreign ones, by chunk. `own` stays
  // as it is until evaluated(), which waits for later stages to begin theirs.
  std::vector<Buffer> exchange_for_evaluation(Label label, const float* own);
  void evaluated();

  // Nothing will come of this minibatch and those after it.
  void stop_before(Minibatch end);
  // Between two actions: posts what comes next.
  void post_ahead();
  void release_sent();
  void finish();  // waits until everything has been sent

 private:
  // A parameter's weights on their way from the stage that owns it to one that uses it.
  struct Way {
    Rank peer;
    int owner_stage = 0;
    int user_stage = 0;
    int number = 0;           // among the user's foreign parameters
    int chunk = 0;            // of this rank
    std::int64_t offset = 0;  // in its own parameters, or in its foreign ones
    std::int64_t count = 0;
    int copies = -1;  // of it on their way: in copies_; -1: sent from where it lies
  };
  // A parameter's gradient at a stage of this rank.
  struct Sum {
    int number = 0;  // of all tied parameters
    int chunk = 0;
    std::int64_t count = 0;
    std::vector<std::int64_t> uses;   // in the rank's uses, from the last layer to the first
    std::vector<Rank> from;           // what comes from the next stage that uses it
    std::optional<std::int64_t> own;  // in the rank's own gradients, at its owner
    Rank to;                          // elsewhere
    int to_stage = 0;
    // What goes there lies in memory_of_uses(), else in what came.
    bool sends_uses() const { return !own && from.empty(); }
  };
  struct Weights {  // of one minibatch, from everybody
    std::vector<std::shared_ptr<Buffer>> of_chunk;
    std::vector<Operation> operations;  // of `ways_in_`
    int chunks_left = 0;
  };
  struct Part {
    Buffer data;
    Operation operation;
  };
  struct Sending {
    Operation operation;
    std::shared_ptr<const void> data;
  };
  struct Chunk {
    std::map<Minibatch, std::shared_ptr<Buffer>> of;
    std::map<std::pair<Minibatch, int>, std::shared_ptr<Buffer>> of_pass;
    std::shared_ptr<Buffer> newest;
    std::optional<Minibatch> taken, given;
  };

  void find_ways(const std::vector<ParameterLayout>& layouts);
  void find_sums(const std::vector<ParameterLayout>& layouts);
  void make_memory();
  int places_of_sums() const;     // that are to leave here
  int chunk_of(int stage) const;  // -1: another rank's
  bool may_differ(Minibatch p) const;
  Minibatch next_that_may_differ(Minibatch p) const;
  Weights receive_weights(Channel channel);
  void post_weights();
  void post_parts();
  Operation send(Rank to, Channel channel, const MessageHeader& header, const float* first,
                 std::int64_t count);
  void wait_until_sent(const Operation& operation);
  void wait_until_sent(std::deque<Sending>& all);
  void wait(const Operation& operation, Rank peer, const char* what, std::int64_t number,
            int stage);
  Buffer floats(std::int64_t count, MemoryKind kind) const;

  const WorkerPlace& place_;
  std::vector<Stage*> chunks_;
  Rule rule_;
  DeviceTransport& transport_;
  RankService& service_;
  Pace& pace_;
  RankReport& report_;
  WorkQueue& ahead_;
  Device& device_;
  Stream& stream_;

  std::vector<Way> ways_in_, ways_out_;  // in the order of their messages
  Minibatch to_post_;                    // the next whose weights differ from those before
  Minibatch next_;                       // behind those taken
  Minibatch end_;                        // nothing comes from here on
  std::map<Minibatch, Weights> posted_;
  std::vector<Chunk> of_chunk_;

  std::vector<Sum> sums_;                 // likewise
  Minibatch update_;                      // the next whose gradients are added up
  std::vector<std::vector<Part>> parts_;  // of the next update, by sum

  std::vector<MessageMemory> copies_;  // of weights on their way
  std::optional<MessageMemory> uses_;
  std::deque<Sending> sending_;    // from versions
  std::deque<Sending> passed_on_;  // gradients, from what came of a later stage
  std::vector<Operation> for_evaluation_;
};

}  // namespace hetpipe
