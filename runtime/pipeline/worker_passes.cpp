// SPDX-License-Identifier: Apache-2.0
// What a worker computes: forward and backward passes, and what is said of their losses.
#include <algorithm>
#include <cmath>

#include "base/index.h"
#include "runtime/pipeline/worker.h"

namespace hetpipe {

void Worker::forward(const Action& action) {
  const Minibatch p = action.minibatch;
  InFlight& flight = flight_of(p);
  if (!feed_.has_begun(p)) {
    synchronizer_.before_forward(p);
    feed_.begin(p);
    if (setup_.started) setup_.started(p);
    ++report_.minibatches;
  }
  const auto micros = setup_.place.micros(Payload::activations, action.micro);
  for (int m = micros.first; m < micros.end; ++m) forward(action, flight, m);
  if (flight.forwards_left == 0) {
    feed_.end(p);
    tied_.forwards_done(p);
    all_forwarded(p, flight);
  }
}

void Worker::forward(const Action& action, InFlight& flight, int micro) {
  const Minibatch p = action.minibatch;
  tied_.take(p, action.chunk);
  const PassClock::Start start = clock_.start();
  Stage& stage = chunk(action);
  HeldPass& pass = flight.passes[at(action.chunk)][at(micro)];
  feed_.load({p, micro, action.chunk}, pass);
  {
    const ComputeWeights::Of with = compute_.forward(p, action.chunk, micro);
    const Label label = with.version->label;
    if (!flight.label) flight.seen = weights_.seen();
    flight.label = label;
    if ((p + 1) % rules_.length() == 0 && keeps_exact(rules_.wave_of(p))) {
      weights_.keep_exact();
    }
    ensure(!setup_.waves || label == label_, "weights are of another label than their minibatch");
    tied_.give(p, action.chunk, with.version, with.weights.own);
    stage.forward(pass, with.weights, statistics_.of_chunk(action.chunk), Mode::train);
    std::function<void()> then;
    if (stage.has_loss()) {
      // Where the host is not ahead the pass is as it was computed, and so are its weights.
      then = [this, action, micro, read = read_losses(stage, pass, ahead_),
              now = ahead_.is_ahead() ? nullptr : &with.weights] {
        note_loss(action, micro, read(), now);
      };
    }
    feed_.bring_ahead();
    clock_.end(start, PassPart::forward, action.chunk, pass.samples, doing(action),
               std::move(then));
  }
  compute_.forward_done(p, action.chunk, micro);
  pass.forwarded = true;
  --flight.forwards_left;
  if (stage.outgoing().empty()) drop_what_backward_does_not_need(action, pass);
}

void Worker::drop_what_backward_does_not_need(const Action& action, Pass& pass) {
  if (setup_.recompute[at(action.chunk)]) {
    chunk(action).drop_what_forward_makes(pass);
  } else {
    chunk(action).drop_what_backward_does_not_need(pass);
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
  const Minibatch p = action.minibatch;
  const auto micros = setup_.place.micros(Payload::activations, action.micro);
  for (int m = micros.first; m < micros.end; ++m) {
    const PassClock::Start start = clock_.start();
    HeldPass& pass = flight_of(p).passes[at(action.chunk)][at(m)];
    const ComputeWeights::Of with = compute_.backward(p, action.chunk, m);
    chunk(action).forward(pass, with.weights, statistics_.of_chunk(action.chunk), Mode::train,
                          Statistics::leave);
    chunk(action).drop_what_backward_does_not_need(pass);
    clock_.end(start, PassPart::again, action.chunk, pass.samples, doing(action));
  }
}

void Worker::backward(const Action& action) {
  const Minibatch p = action.minibatch;
  InFlight& flight = flight_of(p);
  const auto micros = setup_.place.micros(Payload::gradients, action.micro);
  const bool apart = setup_.split_backward;
  for (int m = micros.first; m < micros.end; ++m) {
    const PassClock::Start start = clock_.start();
    HeldPass& pass = flight.passes[at(action.chunk)][at(m)];
    const ComputeWeights::Of with = compute_.backward(p, action.chunk, m);
    messages_.place_gradients(action, pass);
    if (setup_.scaled && chunk(action).has_loss()) {
      if (!flight.scale) flight.scale = loss_scale_.exponent(p);
      pass.loss_scale = scale_of(*flight.scale);
    }
    if (apart) {
      chunk(action).backward(pass, with.weights, nullptr, BackwardPart::inputs);
    } else {
      const auto [gradients, mode] = gradients_.next(action.chunk);
      chunk(action).backward(pass, with.weights, gradients, BackwardPart::whole, mode);
      compute_.backward_done(p, action.chunk, m);
    }
    pass.backwarded = true;
    clock_.end(start, apart ? PassPart::inputs : PassPart::backward, action.chunk, pass.samples,
               doing(action));
    // Until its loss is known to be finite, the pass is kept.
    if (chunk(action).has_loss()) ahead_.limit(1);
    if (!apart) chunk(action).drop_what_backward_read(pass);
  }
}

void Worker::weight_gradient(const Action& action) {
  const Minibatch p = action.minibatch;
  const PassClock::Start start = clock_.start();
  HeldPass& pass = flight_of(p).passes[at(action.chunk)][at(action.micro)];
  const ComputeWeights::Of with = compute_.backward(p, action.chunk, action.micro);
  const auto [gradients, mode] = gradients_.next(action.chunk);
  chunk(action).weight_gradient(pass, with.weights, gradients, mode);
  compute_.backward_done(p, action.chunk, action.micro);
  clock_.end(start, PassPart::weights, action.chunk, pass.samples, doing(action));
  chunk(action).drop_what_backward_read(pass);
}

// `weights`: that the pass was computed with, where they are still there.
void Worker::note_loss(const Action& action, int micro, const Losses& losses,
                       const StageWeights* weights) {
  const Minibatch p = action.minibatch;
  HeldPass& pass = flight_of(p).passes[at(action.chunk)][at(micro)];
  if (!std::isfinite(losses.sum)) {
    if (weights != nullptr) search_.fail(p, chunk(action), pass, *weights);
    search_.fail_again(p, action.chunk, micro, pass);
  }
  wave_.add_loss(losses.sum, losses.correct, pass.samples, pass.predictions);
}

}  // namespace hetpipe
