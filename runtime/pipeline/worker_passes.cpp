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
  flight.batch = setup_.batch(p);
  const std::int64_t start = now_ns();
  report_.data_seconds += seconds_between(asked, start);
  pace_.answered(seconds_between(asked, start), start);
  if (setup_.started) setup_.started(p);
  flight.begun = true;
  ++report_.minibatches;
}

// A micro-batch's samples come to the device when their forward does.
void Worker::load_samples(const Action& action, const InFlight& flight, int micro, Pass& pass) {
  const WorkerPlace& place = setup_.place;
  const std::int64_t samples = place.samples(action.minibatch);
  const auto share = [&](int m) {
    return place.split.of(samples, m, place.stage(0).value, place.replica).count();
  };
  std::int64_t first = 0;
  for (int m = 0; m < micro; ++m) first += share(m);
  load(chunk(action), flight.batch, {first, first + share(micro)}, pass);
  pass.loss_samples = setup_.loss_samples(action.minibatch);
}

Worker::PassStart Worker::start_pass() const { return {now_ns(), processor_wait_.seconds()}; }

// The pass has been computed: how long the device was busy with it. `samples`: 0 where the pass is
// a part of another one. What the rank itself took counts from when it began: an emulated device is
// busy from when the input was there, which a rank may notice late on a busy machine.
double Worker::end_pass(const PassStart& start, double modelled_seconds, std::int64_t samples) {
  const double busy = pace_.hold(start.ns, modelled_seconds);
  const double waited = processor_wait_.seconds() - start.waited;
  const double took = seconds_between(start.ns, now_ns()) - waited;
  wave_.compute_seconds += std::max(modelled_seconds, took);
  wave_.computed_samples += samples;
  return busy;
}

void Worker::forward(const Action& action) {
  InFlight& flight = flight_of(action.minibatch);
  if (!flight.begun) begin(action.minibatch, flight);
  const auto micros = setup_.place.micros(Payload::activations, action.micro);
  for (int m = micros.first; m < micros.end; ++m) forward(action, flight, m);
  if (flight.forwards_left == 0) {
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
  load_samples(action, flight, micro, pass);
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
    stage.forward(pass, weights, statistics_of(action.chunk), Mode::train);
    settle(doing(action) + "forward");
    const StagePace& pace = setup_.paces[at(action.chunk)];
    report_.forward_seconds +=
        end_pass(start, modelled(pace.forward, action.chunk, pass.samples), pass.samples);
    if (stage.has_loss()) note_loss(p, stage, pass, weights);
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
  const auto [of_wave, first] = stale_.try_emplace(rules_.wave_of(p), Stale{stale, stale});
  of_wave->second.least = std::min(of_wave->second.least, stale);
  of_wave->second.most = std::max(of_wave->second.most, stale);
  if (setup_.waves && ends_wave(p) && statistics_.bytes() > 0) {
    wave_statistics_[rules_.wave_of(p)] = download(statistics_);
  }
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
    chunk(action).forward(pass, weights, statistics_of(action.chunk), Mode::train,
                          Statistics::leave);
    chunk(action).drop_what_backward_does_not_need(pass);
    settle(doing(action) + "forward once more");
    report_.forward_seconds +=
        end_pass(start, modelled(pace.forward, action.chunk, pass.samples), 0);
  }
}

StageGradients Worker::gradient_of(int chunk) {
  std::int64_t own = 0, uses = 0;  // of all chunks, and before this one
  std::int64_t own_before = 0, uses_before = 0;
  for (std::size_t c = 0; c < chunks_.size(); ++c) {
    if (static_cast<int>(c) == chunk) {
      own_before = own;
      uses_before = uses;
    }
    own += chunks_[c]->parameters().count();
    uses += chunks_[c]->parameters().use_count();
  }
  if (!gradient_begun_) {
    const auto make = [&](std::int64_t count) {
      return Buffer(device_, stream_, static_cast<std::size_t>(count) * sizeof(float),
                    MemoryKind::gradients);
    };
    gradient_ = make(own);
    uses_ = make(uses);
    accumulating_.assign(chunks_.size(), false);
    gradient_begun_ = true;
  }
  return {gradient_.as<float>() + own_before, uses_.as<float>() + uses_before};
}

// The first gradient since the last update takes the place of what was there.
Gradients Worker::next_gradient(int chunk) {
  const bool first = !accumulating_[at(chunk)];
  accumulating_[at(chunk)] = true;
  return first ? Gradients::overwrite : Gradients::accumulate;
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
      const StageGradients gradient = gradient_of(action.chunk);
      chunk(action).backward(pass, weights, gradient, BackwardPart::whole,
                             next_gradient(action.chunk));
      versions_.backward_done(action.minibatch, number);
      tied_.backward_done(action.minibatch, action.chunk, number);
    }
    pass.backwarded = true;
    settle(doing(action) + "backward");
    if (!apart) chunk(action).drop_what_backward_read(pass);
    const double seconds = apart ? pace.backward - pace.weight_gradient : pace.backward;
    report_.backward_seconds +=
        end_pass(start, modelled(seconds, action.chunk, pass.samples), pass.samples);
  }
}

void Worker::weight_gradient(const Action& action) {
  const PassStart start = start_pass();
  HeldPass& pass = flight_of(action.minibatch).passes[at(action.chunk)][at(action.micro)];
  const int number = pass_number(action, action.micro);
  const auto version = versions_.backward(action.minibatch, number);
  const StageWeights weights(of_chunk(*version, action.chunk),
                             tied_.of_backward(action.minibatch, action.chunk, number));
  const StageGradients gradient = gradient_of(action.chunk);
  chunk(action).weight_gradient(pass, weights, gradient, next_gradient(action.chunk));
  versions_.backward_done(action.minibatch, number);
  tied_.backward_done(action.minibatch, action.chunk, number);
  settle(doing(action) + "weight gradient");
  chunk(action).drop_what_backward_read(pass);
  const double seconds = setup_.paces[at(action.chunk)].weight_gradient;
  report_.backward_seconds += end_pass(start, modelled(seconds, action.chunk, pass.samples), 0);
}

void Worker::note_loss(Minibatch p, const Stage& stage, const Pass& pass,
                       const StageWeights& weights) {
  const Losses losses = read_losses(stage, pass, service_);
  if (!std::isfinite(losses.sum)) fail_numerically(p, stage, pass, weights);
  wave_.loss_sum += losses.sum;
  wave_.correct += losses.correct;
  wave_.samples += pass.samples;
  wave_.labels += pass.predictions;
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

// This rank, or another replica of its stage, sent numbers that are not finite. What it did not
// keep is computed once more, with the weights that its backward would have: the same bits where a
// version is kept. The loss that a gradient came back from was finite.
void Worker::look_again(Minibatch p) {
  const auto found = in_flight_.find(p);
  if (found == in_flight_.end()) return;
  InFlight flight = std::move(found->second);
  in_flight_.clear();
  for (std::size_t c = 0; c < chunks_.size(); ++c) {
    for (std::size_t m = 0; m < flight.passes[c].size(); ++m) {
      HeldPass& pass = flight.passes[c][m];
      if (!pass.forwarded || pass.backwarded || pass.samples == 0) continue;
      const Action action{
          .kind = ActionKind::forward, .minibatch = p, .chunk = static_cast<int>(c)};
      const int number = pass_number(action, static_cast<int>(m));
      const auto version = versions_.backward(p, number);
      const StageWeights weights(of_chunk(*version, action.chunk),
                                 tied_.of_backward(p, action.chunk, number));
      chunks_[c]->drop_what_forward_makes(pass);
      chunks_[c]->forward(pass, weights, statistics_of(action.chunk), Mode::train,
                          Statistics::leave);
      if (first_non_finite(*chunks_[c], pass, weights)) {
        fail_numerically(p, *chunks_[c], pass, weights);
      }
    }
  }
}

}  // namespace hetpipe
