// SPDX-License-Identifier: Apache-2.0
// What a worker computes: forward and backward passes, and what is said of their losses.
#include <algorithm>
#include <cmath>

#include "base/index.h"
#include "base/text.h"
#include "base/time.h"
#include "runtime/pipeline/non_finite.h"
#include "runtime/pipeline/stage_io.h"
#include "runtime/pipeline/worker.h"

namespace hetpipe {
namespace {

// For an earlier stage to find its layer; it computes a forward for it.
constexpr std::int64_t kEarlierStageSpeaksNs = 10'000'000'000;

}  // namespace

void Worker::begin(Minibatch p, InFlight& flight) {
  synchronizer_.before_forward(p);
  const std::int64_t asked = now_ns();
  if (batch_ahead_ && batch_ahead_->minibatch == p) {
    flight.batch = std::move(*batch_ahead_);
    batch_ahead_.reset();
  } else {
    flight.batch = setup_.batch(p);
  }
  const std::int64_t start = now_ns();
  ahead_.waited(asked, start, &RankReport::data_seconds);
  pace_.answered(seconds_between(asked, start), start);
  if (setup_.started) setup_.started(p);
  flight.begun = true;
  ++report_.minibatches;
}

SampleSpan Worker::samples_of(const StagePass& of) const {
  const WorkerPlace& place = setup_.place;
  const std::int64_t samples = place.samples(of.minibatch);
  const auto share = [&](int m) {
    return place.split.of(samples, m, place.stage(0).value, place.replica).count();
  };
  std::int64_t first = 0;
  for (int m = 0; m < of.micro; ++m) first += share(m);
  return {first, first + share(of.micro)};
}

// A micro-batch's samples come to a device that the host reaches when their forward does, else one
// pass before.
void Worker::load_samples(const StagePass& of, const InFlight& flight, Pass& pass) {
  const Stage& stage = *chunks_[at(of.chunk)];
  if (!samples_ahead_) {
    load(stage, flight.batch, samples_of(of), pass, ahead_);
  } else {
    describe(stage, flight.batch, samples_of(of), pass);
    if (stage.reads_samples() || stage.has_loss()) {
      bring_ahead();
      samples_ahead_->take(of, stage, pass);
    }
  }
  pass.loss_samples = setup_.loss_samples(of.minibatch);
}

// The next pass's samples, unless they wait already or have not been assembled.
void Worker::bring_ahead() {
  if (!samples_ahead_ || !samples_ahead_->empty()) return;
  if (!next_to_bring_) next_to_bring_ = to_bring_.next();
  if (!next_to_bring_) return;
  const StagePass& next = *next_to_bring_;
  const auto begun = in_flight_.find(next.minibatch);
  const Batch* batch = nullptr;
  if (begun != in_flight_.end() && begun->second.begun) {
    batch = &begun->second.batch;
  } else {
    if (!batch_ahead_) batch_ahead_ = setup_.batch_ahead(next.minibatch);
    if (!batch_ahead_ || batch_ahead_->minibatch != next.minibatch) return;
    batch = &*batch_ahead_;
  }
  samples_ahead_->upload(next, *chunks_[at(next.chunk)], *batch, samples_of(next));
  next_to_bring_.reset();
}

Worker::PassStart Worker::start_pass() {
  ahead_.begin();
  return {now_ns(), processor_wait_.seconds()};
}

// `samples`: 0 where the pass is a part of another one.
void Worker::end_pass(const PassStart& start, std::string what, double modelled_seconds,
                      std::int64_t samples, double RankReport::*busy, std::function<void()> then) {
  ahead_.end(WorkQueue::Work::pass, std::move(what),
             [=, this, then = std::move(then)](const WorkQueue::Span& span) {
               report_.*busy += busy_seconds(start, modelled_seconds, span, samples);
               if (then) then();
             });
}

// The pass has been computed: how long the device was busy with it. What the rank itself took
// counts from when it began: an emulated device is busy from when the input was there, which a rank
// may notice late on a busy machine.
double Worker::busy_seconds(const PassStart& start, double modelled_seconds,
                            const WorkQueue::Span& span, std::int64_t samples) {
  if (ahead_.is_ahead()) {
    wave_.add_pass(samples, span.seconds());
    return span.seconds();
  }
  const double busy = pace_.hold(start.ns, modelled_seconds);
  const double waited = processor_wait_.seconds() - start.waited;
  const double took = seconds_between(start.ns, now_ns()) - waited;
  wave_.add_pass(samples, std::max(modelled_seconds, took));
  return busy;
}

void Worker::forward(const Action& action) {
  InFlight& flight = flight_of(action.minibatch);
  if (!flight.begun) begin(action.minibatch, flight);
  const auto micros = setup_.place.micros(Payload::activations, action.micro);
  for (int m = micros.first; m < micros.end; ++m) forward(action, flight, m);
  if (flight.forwards_left == 0) {
    flight.batch.images = {};
    tied_.forwards_done(action.minibatch);
    all_forwarded(action.minibatch, flight);
  }
}

void Worker::forward(const Action& action, InFlight& flight, int micro) {
  const Minibatch p = action.minibatch;
  tied_.take(p, action.chunk);
  const PassStart start = start_pass();
  Stage& stage = chunk(action);
  HeldPass& pass = flight.passes[at(action.chunk)][at(micro)];
  const int number = pass_number(action, micro);
  load_samples({p, micro, action.chunk}, flight, pass);
  {
    const PassWeights::Version version = versions_.forward(p, number);
    if (!flight.label) flight.seen = weights_.seen();
    flight.label = version->label;
    if (p % rules_.in_flight == rules_.in_flight - 1 && keeps_exact(rules_.wave_of(p))) {
      weights_.keep_exact();
    }
    ensure(!setup_.waves || version->label == label_,
           "weights are of another label than their minibatch");
    const StageWeights weights(of_chunk(*version, action.chunk), tied_.of_forward(p, action.chunk));
    tied_.give(p, action.chunk, weights.own);
    stage.forward(pass, weights, statistics_.of_chunk(action.chunk), Mode::train);
    std::function<void()> then;
    if (stage.has_loss()) {
      // Where the host is not ahead the pass is as it was computed, and so are its weights.
      then = [this, action, micro, read = read_losses(stage, pass, ahead_),
              now = ahead_.is_ahead() ? nullptr : &weights] {
        note_loss(action, micro, read(), now);
      };
    }
    bring_ahead();
    const StagePace& pace = setup_.paces[at(action.chunk)];
    end_pass(start, doing(action) + "forward on " + device_.description(),
             modelled(pace.forward, action.chunk, pass.samples), pass.samples,
             &RankReport::forward_seconds, std::move(then));
  }
  versions_.forward_done(p, number);
  pass.forwarded = true;
  --flight.forwards_left;
  if (!stage.outgoing().empty()) return;
  if (setup_.recompute[at(action.chunk)]) {
    stage.drop_what_forward_makes(pass);
  } else {
    stage.drop_what_backward_does_not_need(pass);
  }
}

// Of minibatch p at this rank.
void Worker::all_forwarded(Minibatch p, const InFlight& flight) {
  const Minibatch stale =
      setup_.waves ? rules_.staleness(p, label_) : std::max<Minibatch>(0, p - flight.seen);
  ensure(!setup_.waves || stale <= rules_.global_staleness(),
         "a minibatch misses more updates than D allows");
  wave_.add_staleness(rules_.wave_of(p), stale);
  if (setup_.waves && ends_wave(p)) statistics_.keep(rules_.wave_of(p));
}

void Worker::recompute(const Action& action) {
  const auto micros = setup_.place.micros(Payload::activations, action.micro);
  const StagePace& pace = setup_.paces[at(action.chunk)];
  for (int m = micros.first; m < micros.end; ++m) {
    const PassStart start = start_pass();
    HeldPass& pass = flight_of(action.minibatch).passes[at(action.chunk)][at(m)];
    const int number = pass_number(action, m);
    const auto version = versions_.backward(action.minibatch, number);
    const StageWeights weights(of_chunk(*version, action.chunk),
                               tied_.of_backward(action.minibatch, action.chunk, number));
    chunk(action).forward(pass, weights, statistics_.of_chunk(action.chunk), Mode::train,
                          Statistics::leave);
    chunk(action).drop_what_backward_does_not_need(pass);
    end_pass(start, doing(action) + "forward once more on " + device_.description(),
             modelled(pace.forward, action.chunk, pass.samples), 0, &RankReport::forward_seconds);
  }
}

void Worker::backward(const Action& action) {
  InFlight& flight = flight_of(action.minibatch);
  const auto micros = setup_.place.micros(Payload::gradients, action.micro);
  const StagePace& pace = setup_.paces[at(action.chunk)];
  const bool apart = setup_.split_backward;
  messages_.note_queued(Payload::gradients);
  for (int m = micros.first; m < micros.end; ++m) {
    const PassStart start = start_pass();
    HeldPass& pass = flight.passes[at(action.chunk)][at(m)];
    const int number = pass_number(action, m);
    const auto version = versions_.backward(action.minibatch, number);
    const StageWeights weights(of_chunk(*version, action.chunk),
                               tied_.of_backward(action.minibatch, action.chunk, number));
    if (setup_.scaled && chunk(action).has_loss()) {
      if (!flight.scale) flight.scale = loss_scale_.exponent(action.minibatch);
      pass.loss_scale = scale_of(*flight.scale);
    }
    if (apart) {
      chunk(action).backward(pass, weights, nullptr, BackwardPart::inputs);
    } else {
      const auto [gradients, mode] = gradients_.next(action.chunk);
      chunk(action).backward(pass, weights, gradients, BackwardPart::whole, mode);
      versions_.backward_done(action.minibatch, number);
      tied_.backward_done(action.minibatch, action.chunk, number);
    }
    pass.backwarded = true;
    const double seconds = apart ? pace.backward - pace.weight_gradient : pace.backward;
    end_pass(start, doing(action) + "backward on " + device_.description(),
             modelled(seconds, action.chunk, pass.samples), pass.samples,
             &RankReport::backward_seconds);
    // Until its loss is known to be finite, the pass is kept.
    if (chunk(action).has_loss()) ahead_.limit(1);
    if (!apart) chunk(action).drop_what_backward_read(pass);
  }
}

void Worker::weight_gradient(const Action& action) {
  const PassStart start = start_pass();
  HeldPass& pass = flight_of(action.minibatch).passes[at(action.chunk)][at(action.micro)];
  const int number = pass_number(action, action.micro);
  const auto version = versions_.backward(action.minibatch, number);
  const StageWeights weights(of_chunk(*version, action.chunk),
                             tied_.of_backward(action.minibatch, action.chunk, number));
  const auto [gradients, mode] = gradients_.next(action.chunk);
  chunk(action).weight_gradient(pass, weights, gradients, mode);
  versions_.backward_done(action.minibatch, number);
  tied_.backward_done(action.minibatch, action.chunk, number);
  const double seconds = setup_.paces[at(action.chunk)].weight_gradient;
  end_pass(start, doing(action) + "weight gradient on " + device_.description(),
           modelled(seconds, action.chunk, pass.samples), 0, &RankReport::backward_seconds);
  chunk(action).drop_what_backward_read(pass);
}

// `weights`: that the pass was computed with, where they are still there.
void Worker::note_loss(const Action& action, int micro, const Losses& losses,
                       const StageWeights* weights) {
  const Minibatch p = action.minibatch;
  HeldPass& pass = flight_of(p).passes[at(action.chunk)][at(micro)];
  if (!std::isfinite(losses.sum)) {
    if (weights != nullptr) fail_numerically(p, chunk(action), pass, *weights);
    look_at(p, action.chunk, micro, pass, Otherwise::says_so);
  }
  wave_.add_loss(losses.sum, losses.correct, pass.samples, pass.predictions);
}

// The loss of p is not finite: says which layer's numbers were the first not to be. Where they came
// in with the activations, the stage that sent them is asked, and ends the run in its own words.
void Worker::fail_numerically(Minibatch p, const Stage& stage, const Pass& pass,
                              const StageWeights& weights) {
  const auto found = first_non_finite(stage, pass, weights);
  if (found && found->sender) {
    for (const Rank sender : setup_.place.ranks[at(*found->sender)]) {
      service_.send(sender, FindNonFinite{.minibatch = p});
    }
    service_.wait_until_ns(now_ns() + kEarlierStageSpeaksNs);
  }
  throw NumericalError(format(
      "step %lld of virtual worker %d: the loss is not a finite number. The first non-finite "
      "number, in the order of computation, is at stage %d: %s. Lower --learning-rate, or start "
      "from an earlier checkpoint.",
      static_cast<long long>(rules_.minibatches_done(p)), setup_.place.virtual_worker.value,
      stage.id().value, found ? found->what.c_str() : "the loss"));
}

// This rank, or another replica of its stage, sent numbers that are not finite. The loss that a
// gradient came back from was finite.
void Worker::look_again(Minibatch p) {
  const auto found = in_flight_.find(p);
  if (found == in_flight_.end()) return;
  InFlight flight = std::move(found->second);
  in_flight_.clear();
  for (std::size_t c = 0; c < chunks_.size(); ++c) {
    for (std::size_t m = 0; m < flight.passes[c].size(); ++m) {
      HeldPass& pass = flight.passes[c][m];
      if (!pass.forwarded || pass.backwarded || pass.samples == 0) continue;
      look_at(p, static_cast<int>(c), static_cast<int>(m), pass, Otherwise::returns);
    }
  }
}

// What a pass did not keep is computed once more, with the weights that its backward would have:
// the same bits where a version is kept.
void Worker::look_at(Minibatch p, int chunk, int micro, Pass& pass, Otherwise otherwise) {
  const Action action{.kind = ActionKind::forward, .minibatch = p, .chunk = chunk};
  Stage& stage = *chunks_[at(chunk)];
  const int number = pass_number(action, micro);
  const auto version = versions_.backward(p, number);
  const StageWeights weights(of_chunk(*version, chunk), tied_.of_backward(p, chunk, number));
  stage.drop_what_forward_makes(pass);
  stage.forward(pass, weights, statistics_.of_chunk(chunk), Mode::train, Statistics::leave);
  if (otherwise == Otherwise::says_so || first_non_finite(stage, pass, weights)) {
    fail_numerically(p, stage, pass, weights);
  }
}

}  // namespace hetpipe
