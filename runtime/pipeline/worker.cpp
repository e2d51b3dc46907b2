// SPDX-License-Identifier: Apache-2.0
#include "runtime/pipeline/worker.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/index.h"
#include "base/text.h"
#include "base/time.h"

namespace hetpipe {
namespace {

// Of all stages for clipping by the norm of all, and to leave out an update of all; of the rank
// alone to leave out its own.
StageSquares::Of squares_needed(const WorkerSetup& setup) {
  if (setup.clip_globally || (setup.scaled && setup.flushed)) return StageSquares::Of::all;
  return setup.scaled ? StageSquares::Of::own : StageSquares::Of::none;
}

}  // namespace

Worker::Worker(WorkerSetup setup, const WaveRules& rules, std::vector<Stage*> chunks,
               LocalWeights& weights, Optimizer& optimizer, std::vector<float> initial_statistics,
               Synchronizer& synchronizer, DeviceTransport& transport, RankService& service)
    : setup_(std::move(setup)),
      rules_(rules),
      chunks_(std::move(chunks)),
      device_(chunks_.front()->device()),
      stream_(chunks_.front()->stream()),
      weights_(weights),
      optimizer_(optimizer),
      versions_(setup_.policy, weights, optimizer, device_, stream_,
                static_cast<int>(chunks_.size()) * setup_.place.split.micro_batches()),
      synchronizer_(synchronizer),
      service_(service),
      pace_(service),
      wave_({.virtual_worker = setup_.place.virtual_worker.value,
             .stage = setup_.place.stage(0).value,
             .replica = setup_.place.replica}),
      ahead_(device_, stream_, service, report_, setup_.run_ahead),
      clock_(setup_.paces, device_.description(), ahead_, pace_, wave_, report_),
      feed_(setup_.place, chunks_, setup_.samples, pace_, ahead_),
      statistics_(chunks_, initial_statistics, service, ahead_),
      gradients_(chunks_, [this] { return tied_.memory_of_uses(); }),
      squares_(squares_needed(setup_), setup_.place, *chunks_.front(), optimizer, service, pace_),
      messages_(setup_.place, chunks_, transport, service, pace_, report_, ahead_,
                setup_.messages_ahead),
      tied_(setup_.place, chunks_, tied_rule(), transport, service, pace_, report_, ahead_),
      compute_(versions_, tied_, chunks_, setup_.place.split.micro_batches()),
      search_(setup_.place, rules, chunks_, compute_, statistics_, service),
      evaluator_(setup_.test, chunks_, messages_, service, pace_),
      loss_scale_(rules.in_flight, setup_.loss_scale),
      label_(weights.label()) {
  service.on<FindNonFinite>([this](Rank, const FindNonFinite& message) {
    const Minibatch p = message.minibatch;
    if (auto flight = in_flight_.extract(p)) {
      search_.look_again(p, std::move(flight.mapped().passes));
    }
  });
  service.on<LossScaleOverflow>([this](Rank, const LossScaleOverflow& message) {
    if (loss_scale_.overflowed(message.scale_exponent)) return;
    throw NumericalError(
        format("step %lld: gradients are not finite numbers, even without loss "
               "scaling. Lower --learning-rate, or give --precision bf16 or "
               "fp32.",
               static_cast<long long>(rules_.minibatches_done(message.minibatch))));
  });
  if (!setup_.waves && setup_.ema > 0) {
    average_.emplace(device_, stream_, setup_.ema, std::exchange(setup_.average, {}));
  }
  if (ahead_.is_ahead()) {
    for (Stage* stage : chunks_) {
      stage->between_layers([&service = service_] { service.move_messages(); });
    }
  }
  report_.virtual_worker = setup_.place.virtual_worker.value;
  report_.stage = setup_.place.stage(0).value;
  report_.replica = setup_.place.replica;
  report_.servers_in_reach = setup_.servers_in_reach;
}

RankReport Worker::run() {
  ahead_.restart();
  messages_.begin();
  tied_.post_ahead();
  const std::int64_t start = now_ns();
  wave_.start(start);
  ActionCursor cursor(setup_.place.actions(), setup_.evaluates, setup_.evaluations);
  while (const std::optional<Action> next = cursor.next()) {
    const Action& action = *next;
    if (left_out(action)) {
      if (cursor.begins_at(*rules_.stopped_before)) break;
      continue;
    }
    service_.begin(to_string(action));
    const std::int64_t start_ns = now_ns();
    const std::int64_t bytes_before = bytes_moved();
    const Label before = label_of(action.minibatch);
    ahead_.start_action();
    clock_.start_action();
    play(action);
    feed_.bring_ahead();
    if (setup_.record) record(action, start_ns, bytes_moved() - bytes_before, before);
    service_.poll();
    if (rules_.stopped_before) {
      messages_.stop_before(*rules_.stopped_before);
      tied_.stop_before(*rules_.stopped_before);
    }
    messages_.release_sent();
    tied_.release_sent();
    tied_.post_ahead();
  }
  if (setup_.waves && rules_.stopped_inside()) stop_inside();
  ahead_.finish();
  messages_.finish();
  tied_.finish();
  synchronizer_.finish();

  report_.total_seconds = seconds_between(start, now_ns());
  report_.messages_summed = synchronizer_.sum_traffic().messages;
  report_.bytes_summed = synchronizer_.sum_traffic().bytes;
  report_.paced_actions = pace_.actions();
  report_.overruns = pace_.overruns();
  report_.overrun_seconds = pace_.overrun_seconds();
  report_.late_seconds = pace_.late_seconds();
  report_.predictions = versions_.predictions();
  report_.peak_memory = static_cast<std::int64_t>(device_.memory().peak());
  for (int kind = 0; kind < kMemoryKinds; ++kind) {
    report_.peak_of_kind[at(kind)] =
        static_cast<std::int64_t>(device_.memory().peak(static_cast<MemoryKind>(kind)));
  }
  return report_;
}

// Of what the device computed, its own times, without what it waited for; behind the records of
// what came before.
void Worker::record(const Action& action, std::int64_t start_ns, std::int64_t bytes, Label before) {
  // An update ends its minibatch; a forward, and the pull before it, give it its label; an
  // evaluation is of the snapshot that it took.
  const Label label = action.kind == ActionKind::update     ? before
                      : action.kind == ActionKind::evaluate ? evaluated_label_
                                                            : label_of(action.minibatch);
  ActionRecord record{start_ns,
                      now_ns(),
                      action.kind,
                      action.minibatch,
                      action.micro,
                      label,
                      rules_.visible_updates(action.minibatch),
                      bytes,
                      action.chunk,
                      action.payload};
  if (!ahead_.is_ahead() && clock_.action().end_ns > 0) {
    record.start_ns = clock_.action().start_ns;
    record.end_ns = clock_.action().end_ns;
  }
  ahead_.then([this, record, on_device = ahead_.action()]() mutable {
    if (ahead_.is_ahead() && on_device->end_ns > 0) {
      record.start_ns = on_device->start_ns;
      record.end_ns = on_device->end_ns;
    }
    setup_.record(record);
  });
}

// The schedule has no push here. The wave's sum so far is pushed for runs that start from there
// with empty pipelines; a continuation takes what is kept before.
void Worker::stop_inside() {
  const Action last{.kind = ActionKind::push, .minibatch = *rules_.stopped_before - 1};
  service_.begin(to_string(last));
  if (keeps_exact(rules_.wave_of(last.minibatch))) exact_inside_ = weights_.exact_inside();
  push(last);
}

void Worker::play(const Action& action) {
  switch (action.kind) {
    case ActionKind::forward:
      return forward(action);
    case ActionKind::recompute:
      return recompute(action);
    case ActionKind::backward:
      return backward(action);
    case ActionKind::weight_gradient:
      return weight_gradient(action);
    case ActionKind::receive:
      return receive(action);
    case ActionKind::send:
      return send(action);
    case ActionKind::push:
      return push(action);
    case ActionKind::update:
      return update(action);
    case ActionKind::pull:
      return pull(action.minibatch);
    case ActionKind::evaluate:
      return evaluate(action.minibatch);
    case ActionKind::checkpoint:
      break;
  }
  ensure(false, "an action that this executor does not run: " + to_string(action));
}

// The run was asked to stop before this.
bool Worker::left_out(const Action& action) const {
  if (!rules_.stopped_before) return false;
  const Minibatch end = rules_.end[at(setup_.place.virtual_worker.value)];
  return action.minibatch >= *rules_.stopped_before ||
         (action.kind == ActionKind::evaluate && action.minibatch >= end);
}

std::int64_t Worker::bytes_moved() const {
  return report_.bytes_forward + report_.bytes_backward + report_.bytes_pushed +
         report_.bytes_pulled + report_.bytes_evaluation;
}

Label Worker::label_of(Minibatch p) const {
  const auto flight = in_flight_.find(p);
  return flight != in_flight_.end() ? flight->second.label.value_or(label_) : label_;
}

std::string Worker::doing(const Action& action) const {
  return format("virtual worker %d stage %d, %s: ", setup_.place.virtual_worker.value,
                setup_.place.stage(action.chunk).value, to_string(action).c_str());
}

void Worker::settle(const std::string& what) {
  service_.settle(stream_, [&] { return what + " on " + device_.description(); });
}

// A minibatch at its first action here.
Worker::InFlight& Worker::flight_of(Minibatch p) {
  const auto [found, added] = in_flight_.try_emplace(p);
  InFlight& flight = found->second;
  if (!added) return flight;
  const int micros = setup_.place.split.micro_batches();
  flight.passes.resize(chunks_.size());
  for (auto& passes : flight.passes) passes.resize(at(micros));
  flight.forwards_left = static_cast<int>(chunks_.size()) * micros;
  return flight;
}

std::vector<Pass*> Worker::passes_of(const Action& action, Payload side) {
  std::vector<Pass*> passes;
  const auto micros = setup_.place.micros(side, action.micro);
  for (int m = micros.first; m < micros.end; ++m) {
    passes.push_back(&flight_of(action.minibatch).passes[at(action.chunk)][at(m)]);
  }
  return passes;
}

// What a B of a use computes with follows from what any B does.
TiedWeights::Rule Worker::tied_rule() const {
  return {.keeps = setup_.policy.backward != WeightsOf::newest,
          .by_wave = setup_.policy.by_wave,
          .keeps_version = setup_.policy.backward == WeightsOf::forward,
          .ahead = setup_.tied_ahead,
          .flushed = setup_.flushed,
          .in_flight = rules_.in_flight,
          .first = rules_.start_minibatch(),
          .end = rules_.end[at(setup_.place.virtual_worker.value)]};
}

void Worker::add_up_tied(Minibatch p) { tied_.add_up(p, gradients_.own(), gradients_.uses()); }

std::vector<float> Worker::download(const Buffer& buffer) {
  std::vector<float> values(buffer.bytes() / sizeof(float));
  device_.copy(stream_, reinterpret_cast<std::byte*>(values.data()), buffer.data(), buffer.bytes());
  settle("values for the host");
  return values;
}

void Worker::receive(const Action& action) {
  const Payload side = action.payload;
  StageMessages::Arrived arrived = messages_.take(side, action);
  const std::vector<Pass*> passes = passes_of(action, side);
  for (std::size_t i = 0; i < passes.size(); ++i) {
    (side == Payload::activations ? passes[i]->activations_in : passes[i]->gradients_in) =
        std::move(arrived.tensors[i]);
  }
  if (setup_.scaled && arrived.scale_exponent) {
    flight_of(action.minibatch).scale = *arrived.scale_exponent;
  }
  if (setup_.waves && arrived.label) {
    announced_label_ = *arrived.label;
    ensure(rules_.gate_before(action.minibatch) || announced_label_ == label_,
           "stages disagree about a label");
  }
}

void Worker::send(const Action& action) {
  const Payload side = action.payload;
  const std::vector<Pass*> passes = passes_of(action, side);
  if (side == Payload::gradients) {
    messages_.send_gradients(action, passes, flight_of(action.minibatch).scale.value_or(0));
    return;
  }
  messages_.send_activations(action, passes, label_);
  for (Pass* pass : passes) drop_what_backward_does_not_need(action, *pass);
}

void Worker::push(const Action& action) {
  const Minibatch p = action.minibatch;
  if (!setup_.waves) {
    if (updates(p)) {
      add_up_tied(p);
      take_out_scale(p);
      synchronizer_.reduce(p, gradients_.own());
    }
    return;
  }
  pace_.catch_up();
  const Wave wave = rules_.wave_of(p);
  std::shared_ptr<const Buffer> sum = weights_.end_wave(
      wave, [&](Buffer& changes) { optimizer_.limit_wave(wave * rules_.length(), p, changes); });
  report_.bytes_pushed += static_cast<std::int64_t>(sum->bytes());
  ++report_.pushes;
  synchronizer_.push(wave, std::move(sum), statistics_.of_wave(wave));
  end_wave(p);
  prefetch(wave + 1);
}

// For its gate, once, unless the run ends before it.
void Worker::prefetch(Wave gate) {
  if (rules_.pull != PullRule::bound || gate <= requested_gate_) return;
  if (rules_.gate_of(gate) >= rules_.end[at(setup_.place.virtual_worker.value)]) return;
  requested_gate_ = gate;
  synchronizer_.prefetch(gate, rules_.bound_label(gate));
}

// The first stage asks at the gate; to the others the label came with the activation, if they
// receive any.
void Worker::pull(Minibatch p) {
  const Wave gate = rules_.wave_of(p);
  const std::int64_t start = now_ns();
  const bool receives = !chunks_.front()->incoming().empty();
  const Label label = receives ? announced_label_ : synchronizer_.pass_gate(gate);
  StageSnapshot snapshot;
  if (evaluated_ && evaluated_->label == label) {
    snapshot = std::move(*evaluated_);
  } else {
    snapshot = synchronizer_.pull(gate, label, WithStatistics::no, WeightsFor::training);
    report_.bytes_pulled += static_cast<std::int64_t>(snapshot.weights.bytes());
    ++report_.pulls;
  }
  evaluated_.reset();
  weights_.rebase(gate, label, std::move(snapshot.weights));
  label_ = label;
  // The label of the next gate holds no wave that is still to be pushed here.
  if (rules_.distance > 0) prefetch(gate + 1);
  const std::int64_t now = now_ns();
  const double waited = seconds_between(start, now);
  pace_.answered(waited, now);
  wave_.add_server_wait(waited);
  ahead_.waited(start, now, &RankReport::server_wait_seconds);
}

}  // namespace hetpipe
