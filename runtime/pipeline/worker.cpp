// SPDX-License-Identifier: Apache-2.0
#include "runtime/pipeline/worker.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "base/time.h"
#include "runtime/pipeline/non_finite.h"

namespace hetpipe {
namespace {

// A call that took longer than this has waited for its answer rather than found it.
constexpr double kBlocked = 100e-6;  // s

// For an earlier stage to find its layer; it computes a forward for it.
constexpr std::int64_t kEarlierStageSpeaksNs = 10'000'000'000;

}  // namespace

Worker::Worker(WorkerSetup setup, const WaveRules& rules, Stage& stage, LocalWeights& weights,
               Optimizer& optimizer, std::vector<float> initial_statistics,
               Synchronizer& synchronizer, RankService& service)
    : setup_(std::move(setup)),
      rules_(rules),
      stage_(stage),
      weights_(weights),
      optimizer_(optimizer),
      statistics_(stage.device(), stage.stream(), initial_statistics.size() * sizeof(float),
                  MemoryKind::weights),
      synchronizer_(synchronizer),
      service_(service),
      pace_(service),
      messages_(setup_.neighbours, setup_.actions, stage, service, pace_, report_),
      label_(weights.label()) {
  if (!initial_statistics.empty()) {
    stage.device().copy(stage.stream(), statistics_.data(),
                        reinterpret_cast<const std::byte*>(initial_statistics.data()),
                        initial_statistics.size() * sizeof(float));
    settle("initial statistics");
  }
  service.on(MessageKind::find_non_finite,
             [this](const ControlMessage& message) { look_again(message.header.minibatch); });
  wave_.virtual_worker = report_.virtual_worker = setup_.neighbours.virtual_worker.value;
  wave_.stage = report_.stage = stage.id().value;
}

RankReport Worker::run() {
  const std::int64_t start = last_report_ns_ = now_ns();
  post_ahead(0);
  for (std::size_t i = 0; i < setup_.actions.size(); ++i) {
    const Action& action = setup_.actions[i];
    if (left_out(action)) continue;
    service_.begin(to_string(action));
    const std::int64_t start_ns = now_ns();
    const std::int64_t bytes_before = bytes_moved();
    const Label before = label_of(action.minibatch);
    switch (action.kind) {
      case ActionKind::forward:
        forward(action.minibatch);
        break;
      case ActionKind::backward:
        backward(action.minibatch);
        break;
      case ActionKind::update:
        update(action.minibatch);
        break;
      case ActionKind::receive:
        receive(i);
        break;
      case ActionKind::send:
        send(i);
        break;
      case ActionKind::push:
        push(action.minibatch);
        break;
      case ActionKind::pull:
        pull(action.minibatch);
        break;
      case ActionKind::evaluate:
        evaluate(action.minibatch);
        post_ahead(i + 1);
        break;
      default:
        ensure(false, "an action that this executor does not play: " + to_string(action));
    }
    if (setup_.record) {
      // An update ends its minibatch; a forward, and the pull before it, give it its label; an
      // evaluation is of the snapshot that it took.
      const Label label = action.kind == ActionKind::update     ? before
                          : action.kind == ActionKind::evaluate ? evaluated_->label
                                                                : label_of(action.minibatch);
      setup_.record({start_ns, now_ns(), action.kind, action.minibatch, label,
                     rules_.visible_updates(action.minibatch), bytes_moved() - bytes_before});
    }
    service_.poll();
    messages_.release_sent();
  }
  messages_.finish();
  synchronizer_.finish();

  report_.total_seconds = seconds_between(start, now_ns());
  report_.paced_actions = pace_.actions();
  report_.overruns = pace_.overruns();
  report_.overrun_seconds = pace_.overrun_seconds();
  report_.late_seconds = pace_.late_seconds();
  report_.peak_memory = static_cast<std::int64_t>(stage_.device().memory().peak());
  service_.transport().send_control(setup_.reporter,
                                    {.kind = static_cast<std::int32_t>(MessageKind::rank_report)},
                                    as_payload(report_));
  return report_;
}

// The run was told to stop before this.
bool Worker::left_out(const Action& action) const {
  if (!rules_.stopped) return false;
  const Minibatch end =
      rules_.end[static_cast<std::size_t>(setup_.neighbours.virtual_worker.value)];
  return action.minibatch >= *rules_.stopped * rules_.in_flight ||
         (action.kind == ActionKind::evaluate && action.minibatch >= end);
}

// Whoever takes the last activation before a stop knows of it: the gate before it opened last.
void Worker::post_ahead(std::size_t next) {
  if (rules_.stopped) messages_.stop_before(*rules_.stopped * rules_.in_flight);
  messages_.post_ahead(next);
}

std::int64_t Worker::bytes_moved() const {
  return report_.bytes_forward + report_.bytes_backward + report_.bytes_pushed +
         report_.bytes_pulled + report_.bytes_evaluation;
}

Label Worker::label_of(Minibatch p) const {
  const auto flight = in_flight_.find(p);
  return flight != in_flight_.end() && flight->second.weights ? flight->second.weights->label
                                                              : label_;
}

std::string Worker::doing(ActionKind kind, Minibatch p) const {
  return format("virtual worker %d stage %d, %s: ", setup_.neighbours.virtual_worker.value,
                stage_.id().value, to_string(Action{.kind = kind, .minibatch = p}).c_str());
}

void Worker::settle(const std::string& what) {
  service_.settle(stage_.stream(), [&] { return what + " on " + stage_.device().description(); });
}

double Worker::modelled(double seconds, std::int64_t samples) const {
  if (seconds <= 0 || samples == setup_.pace.minibatch) return seconds;
  return seconds * static_cast<double>(samples) / setup_.pace.minibatch;
}

void Worker::load(Pass& pass, const Batch& batch) {
  Device& device = stage_.device();
  pass.samples = batch.count;
  pass.keys = batch.keys;
  const auto upload = [&](const auto& host) {
    Buffer buffer(device, stage_.stream(), host.size() * sizeof(host[0]), MemoryKind::activations);
    device.copy(stage_.stream(), buffer.data(), reinterpret_cast<const std::byte*>(host.data()),
                buffer.bytes());
    return buffer;
  };
  if (stage_.reads_samples()) pass.images = upload(batch.images);
  if (stage_.has_loss()) pass.labels = upload(batch.labels);
}

void Worker::forward(Minibatch p) {
  InFlight& flight = in_flight_[p];
  const std::int64_t asked = now_ns();
  flight.batch = setup_.training_batch(p);
  const std::int64_t start = now_ns();
  report_.data_seconds += seconds_between(asked, start);
  if (seconds_between(asked, start) > kBlocked) pace_.input_at(start);
  if (setup_.started) setup_.started(p);
  load(flight.pass, flight.batch);
  flight.weights = weights_.version_for(p);
  const bool fills_wave = p % rules_.in_flight == rules_.in_flight - 1;
  if (fills_wave && synchronizer_.saves(rules_.wave_of(p) + 1) == Saves::exactly) {
    weights_.keep_exact();
  }
  ensure(flight.weights->label == label_, "weights rest on another label than their minibatch");

  stage_.forward(flight.pass, flight.weights->values.as<float>(), statistics_.as<float>(),
                 Mode::train);
  settle(doing(ActionKind::forward, p) + "forward");
  report_.forward_seconds += pace_.hold(start, modelled(setup_.pace.forward, flight.pass.samples));
  ++report_.minibatches;

  if (stage_.has_loss()) note_loss(p, flight.pass);
  const Minibatch stale = rules_.staleness(p, label_);
  ensure(stale <= rules_.global_staleness(), "a minibatch misses more updates than D allows");
  const bool first_of_wave = p % rules_.in_flight == 0;
  wave_.staleness_min = first_of_wave ? stale : std::min(wave_.staleness_min, stale);
  wave_.staleness_max = first_of_wave ? stale : std::max(wave_.staleness_max, stale);
  if (rules_.ends_wave(setup_.neighbours.virtual_worker, p) && statistics_.bytes() > 0) {
    std::vector<float>& host = wave_statistics_[rules_.wave_of(p)];
    host.resize(statistics_.bytes() / sizeof(float));
    stage_.device().copy(stage_.stream(), reinterpret_cast<std::byte*>(host.data()),
                         statistics_.data(), statistics_.bytes());
    settle("running statistics");
  }
  if (stage_.outgoing().empty()) stage_.drop_what_backward_does_not_need(flight.pass);
}

double Worker::read_losses(const Pass& pass, std::int64_t& correct) {
  std::vector<float> losses(static_cast<std::size_t>(pass.samples));
  std::vector<std::int32_t> hits(losses.size());
  Device& device = stage_.device();
  device.copy(stage_.stream(), reinterpret_cast<std::byte*>(losses.data()),
              pass.outputs.back().data(), losses.size() * sizeof(float));
  device.copy(stage_.stream(), reinterpret_cast<std::byte*>(hits.data()), pass.correct.data(),
              hits.size() * sizeof(std::int32_t));
  settle("loss");
  double sum = 0;
  for (float loss : losses) sum += static_cast<double>(loss);
  for (std::int32_t hit : hits) correct += hit;
  return sum;
}

void Worker::note_loss(Minibatch p, const Pass& pass) {
  const double sum = read_losses(pass, wave_.correct);
  if (!std::isfinite(sum)) fail_numerically(p, pass, in_flight_.at(p).weights->values.as<float>());
  wave_.loss_sum += sum;
  wave_.samples += pass.samples;
}

// The loss of p is not finite: says which layer's numbers were the first not to be. Where they came
// in with the activations, the stage that sent them is asked, and ends the run in its own words.
void Worker::fail_numerically(Minibatch p, const Pass& pass, const float* weights) {
  const auto found = first_non_finite(stage_, pass, weights);
  if (found && found->sender) {
    const Rank sender = setup_.neighbours.rank_of_stage[static_cast<std::size_t>(*found->sender)];
    service_.transport().send_control(
        sender, {.kind = static_cast<std::int32_t>(MessageKind::find_non_finite), .minibatch = p});
    service_.wait_until_ns(now_ns() + kEarlierStageSpeaksNs);
  }
  throw NumericalError(format(
      "step %lld of virtual worker %d: the loss is not a finite number. The first number that is "
      "not, in the order of computing, is at stage %d: %s. Lower --learning-rate, or start from an "
      "earlier checkpoint.",
      static_cast<long long>(p), setup_.neighbours.virtual_worker.value, stage_.id().value,
      found ? found->what.c_str() : "the loss"));
}

// This stage sent numbers that are not finite. What it did not keep is computed once more, which
// gives the same bits.
void Worker::look_again(Minibatch p) {
  InFlight flight = std::move(in_flight_.at(p));
  in_flight_.clear();
  Pass again;
  again.activations_in = std::move(flight.pass.activations_in);
  flight.pass = Pass();
  load(again, flight.batch);
  stage_.forward(again, flight.weights->values.as<float>(), statistics_.as<float>(), Mode::train);
  fail_numerically(p, again, flight.weights->values.as<float>());
}

void Worker::backward(Minibatch p) {
  InFlight& flight = in_flight_.at(p);
  const std::int64_t start = now_ns();
  flight.gradient = Buffer(stage_.device(), stage_.stream(),
                           static_cast<std::size_t>(stage_.parameters().count()) * sizeof(float),
                           MemoryKind::gradients);
  stage_.backward(flight.pass, flight.weights->values.as<float>(), flight.gradient.as<float>());
  settle(doing(ActionKind::backward, p) + "backward");
  report_.backward_seconds +=
      pace_.hold(start, modelled(setup_.pace.backward, flight.pass.samples));
}

void Worker::update(Minibatch p) {
  InFlight& flight = in_flight_.at(p);
  const std::int64_t start = now_ns();
  wave_.learning_rate = optimizer_.learning_rate(p);
  optimizer_.update(p, flight.gradient, flight.weights->values.as<float>());
  weights_.computed(p, std::move(flight.gradient));
  settle(doing(ActionKind::update, p) + "update");
  in_flight_.erase(p);
  pace_.advance(setup_.pace.update);
  report_.update_seconds += seconds_between(start, now_ns());
}

void Worker::receive(std::size_t action) {
  const Minibatch p = setup_.actions[action].minibatch;
  StageMessages::Arrived arrived = messages_.take(action);
  Pass& pass = in_flight_[p].pass;
  if (messages_.payload(action) == Payload::activations) {
    announced_label_ = arrived.label;
    ensure(rules_.gate_before(p) || announced_label_ == label_, "stages disagree about a label");
    pass.activations_in = std::move(arrived.tensors);
  } else {
    pass.gradients_in = std::move(arrived.tensors);
  }
  post_ahead(action + 1);
}

void Worker::send(std::size_t action) {
  const Minibatch p = setup_.actions[action].minibatch;
  Pass& pass = in_flight_.at(p).pass;
  if (messages_.payload(action) == Payload::activations) {
    messages_.send_activations(pass, p, label_);
    stage_.drop_what_backward_does_not_need(pass);
  } else {
    messages_.send_gradients(pass, p, label_);
  }
}

void Worker::push(Minibatch p) {
  pace_.catch_up();
  const Wave wave = rules_.wave_of(p);
  std::shared_ptr<const Buffer> sum = weights_.end_wave(
      wave, [&](Buffer& changes) { optimizer_.limit_wave(wave * rules_.in_flight, p, changes); });
  report_.bytes_pushed += static_cast<std::int64_t>(sum->bytes());
  ++report_.pushes;
  auto extracted = wave_statistics_.extract(wave);
  std::vector<float> statistics;
  if (!extracted.empty()) statistics = std::move(extracted.mapped());
  synchronizer_.push(wave, std::move(sum), statistics);
  if (synchronizer_.saves(wave + 1) != Saves::nothing) save_state(wave, std::move(statistics));
  const Wave next_gate = wave + 1;
  const Minibatch gate_minibatch = (next_gate + 1) * rules_.in_flight - 1;
  const Minibatch end =
      rules_.end[static_cast<std::size_t>(setup_.neighbours.virtual_worker.value)];
  if (rules_.pull == PullRule::bound && gate_minibatch < end) {
    synchronizer_.prefetch(next_gate, rules_.bound_label(next_gate));
  }

  const std::int64_t now = now_ns();
  wave_.wave = wave;
  wave_.last_minibatch = p;
  wave_.elapsed_seconds = seconds_between(last_report_ns_, now);
  service_.transport().send_control(setup_.reporter,
                                    {.kind = static_cast<std::int32_t>(MessageKind::wave_report)},
                                    as_payload(wave_));
  last_report_ns_ = now;
  wave_.samples = wave_.correct = 0;
  wave_.loss_sum = wave_.server_wait_seconds = 0;
}

// A checkpoint is due behind this wave: hands over what only this stage knows.
void Worker::save_state(Wave wave, std::vector<float> statistics) {
  StageState state{
      .label = wave + 1, .slots = {}, .statistics = std::move(statistics), .exact = {}};
  for (const Buffer& slot : optimizer_.slots()) {
    std::vector<float>& values = state.slots.emplace_back(slot.bytes() / sizeof(float));
    stage_.device().copy(stage_.stream(), reinterpret_cast<std::byte*>(values.data()), slot.data(),
                         slot.bytes());
  }
  state.exact = weights_.exact(wave);
  settle("the state for a checkpoint");
  synchronizer_.save(state);
}

// The first stage asks at the gate; to the others the label came with the activation.
void Worker::pull(Minibatch p) {
  const Wave gate = rules_.wave_of(p);
  const std::int64_t start = now_ns();
  const Label label = stage_.incoming().empty() ? synchronizer_.pass_gate(gate) : announced_label_;
  StageSnapshot snapshot;
  if (evaluated_ && evaluated_->label == label) {
    snapshot = std::move(*evaluated_);
  } else {
    snapshot = synchronizer_.pull(gate, label, WithStatistics::no);
    report_.bytes_pulled += static_cast<std::int64_t>(snapshot.weights.bytes());
    ++report_.pulls;
  }
  evaluated_.reset();
  weights_.rebase(gate, label, std::move(snapshot.weights));
  label_ = label;
  const double waited = seconds_between(start, now_ns());
  if (waited > kBlocked) pace_.input_at(now_ns());
  wave_.server_wait_seconds += waited;
  report_.server_wait_seconds += waited;
}

void Worker::evaluate(Minibatch p) {
  const std::int64_t start = now_ns();
  const Minibatch end =
      rules_.end[static_cast<std::size_t>(setup_.neighbours.virtual_worker.value)];
  const bool final = p >= end;
  const Wave gate = final ? rules_.end_label() + rules_.distance + 1 : rules_.wave_of(p);
  const Label label = final ? rules_.end_label() : rules_.bound_label(gate);
  evaluated_ = synchronizer_.pull(gate, label, WithStatistics::yes);

  EvaluationReport sum{.virtual_worker = setup_.neighbours.virtual_worker.value, .label = label};
  for (std::int64_t number : setup_.evaluation_batches) evaluate_batch(number, *evaluated_, sum);
  if (stage_.has_loss()) {
    service_.transport().send_control(
        setup_.reporter, {.kind = static_cast<std::int32_t>(MessageKind::evaluation_report)},
        as_payload(sum));
  }
  const std::int64_t now = now_ns();
  report_.evaluate_seconds += seconds_between(start, now);
  last_report_ns_ += now - start;  // a wave's time does not count it
}

void Worker::evaluate_batch(std::int64_t number, const StageSnapshot& snapshot,
                            EvaluationReport& sum) {
  service_.begin(format("evaluating test batch %lld", static_cast<long long>(number)));
  const Batch batch = setup_.evaluation_batch(number);
  Pass pass;
  load(pass, batch);
  pass.activations_in = messages_.take_test_batch(number, batch.count);
  const std::int64_t start = now_ns();
  stage_.forward(pass, snapshot.weights.as<float>(), snapshot.statistics.as<float>(),
                 Mode::evaluate);
  settle("evaluation");
  pace_.hold(start, modelled(setup_.pace.forward, batch.count));
  messages_.send_test_batch(pass, number);
  service_.poll();
  messages_.release_sent();
  if (!stage_.has_loss()) return;
  const double loss = read_losses(pass, sum.correct);
  if (!std::isfinite(loss)) {
    const auto found = first_non_finite(stage_, pass, snapshot.weights.as<float>());
    throw NumericalError(
        format("evaluation of label %lld: the test loss is not a finite number (%s). Lower "
               "--learning-rate, or start from an earlier checkpoint.",
               static_cast<long long>(sum.label), found ? found->what.c_str() : "the loss"));
  }
  sum.loss_sum += loss;
  sum.samples += pass.samples;
}

}  // namespace hetpipe
