// SPDX-License-Identifier: Apache-2.0
// What a worker does with its gradients: updates, the ends of waves, evaluations.
#include <cmath>

#include "base/index.h"
#include "base/text.h"
#include "base/time.h"
#include "runtime/pipeline/worker.h"

namespace hetpipe {

bool Worker::ends_wave(Minibatch p) const {
  return rules_.ends_wave(setup_.place.virtual_worker, p);
}

bool Worker::updates(Minibatch p) const { return !setup_.policy.by_wave || ends_wave(p); }

void Worker::update(const Action& action) {
  const Minibatch p = action.minibatch;
  if (updates(p)) {
    if (setup_.waves) {  // replicas alone
      add_up_tied(p);
      take_out_scale(p);
      synchronizer_.reduce(p, gradients_.own());
    }
    const double waited = synchronizer_.finish_reduce(p);
    const std::int64_t now = now_ns();
    ahead_.waited(now - to_ns(waited), now, &RankReport::server_wait_seconds);
    pace_.answered(waited, now);
    const auto squares = squares_.of(p, gradients_.own());
    const bool left_out = overflowed(p, squares);
    const auto clip =
        setup_.clip_globally ? std::optional(optimizer_.clip_factor(squares)) : std::nullopt;
    const PassClock::Start start = clock_.start();
    wave_.set_learning_rate(optimizer_.learning_rate(p));
    if (left_out) {
      const Buffer& gradient = gradients_.own();
      device_.fill(stream_, gradient.as<float>(), 0,
                   static_cast<std::int64_t>(gradient.bytes() / sizeof(float)));
    } else {
      const PassWeights::Version version = versions_.at_update(p);
      const std::int64_t before = setup_.policy.by_wave
                                      ? rules_.updates_done_by_wave(rules_.wave_of(p))
                                      : rules_.updates_done(p);
      optimizer_.update(p, before + 1, gradients_.own(), version->values.as<float>(), clip);
    }
    versions_.minibatch_done(p);
    weights_.computed(p, gradients_.take(),
                      setup_.waves ? LocalWeights::WaveSums::yes : LocalWeights::WaveSums::no);
    if (average_ && ends_wave(p)) average_->follow(weights_);
    clock_.end_update(start, doing(action));
  } else {
    versions_.minibatch_done(p);
  }
  tied_.minibatch_done(p);
  in_flight_.erase(p);
  if (!setup_.waves && ends_wave(p)) end_wave(p);
}

// The scale of the loss, out of the gradient of p (or of its wave, which has one scale).
void Worker::take_out_scale(Minibatch p) {
  if (!setup_.scaled) return;
  const int exponent = flight_of(p).scale.value_or(0);
  const Buffer& gradient = gradients_.own();
  const auto count = static_cast<std::int64_t>(gradient.bytes() / sizeof(float));
  if (exponent != 0 && count > 0) {
    device_.scale(stream_, gradient.as<float>(), scale_of(-exponent), count);
  }
}

// Whether the update of p is left out: a gradient is infinite or NaN, of any stage where the
// pipeline is flushed before an update, else of this one. Those who set the scale are informed.
bool Worker::overflowed(Minibatch p, const StageSquares::ByStage& squares_of_stages) {
  if (!setup_.scaled) return false;
  bool finite = true;
  for (const std::vector<double>& squares : squares_of_stages) {
    for (const double square : squares) finite &= std::isfinite(square);
  }
  const bool tells = setup_.place.replica == 0 && (!setup_.flushed || setup_.place.position == 0);
  if (!finite && tells) {
    for (const Rank rank : setup_.place.ranks.back()) {
      service_.send(rank, LossScaleOverflow{.minibatch = p,
                                            .scale_exponent = flight_of(p).scale.value_or(0)});
    }
  }
  return !finite;
}

// All updates of p's wave have been made.
void Worker::end_wave(Minibatch p) {
  const Wave wave = rules_.wave_of(p);
  const Saves saves = synchronizer_.saves(wave + 1);
  if (saves == Saves::statistics) {
    statistics_.average(wave + 1, synchronizer_);
  } else if (saves != Saves::nothing) {
    save_state(p);
  }
  statistics_.forget(wave);
  ahead_.limit(1);  // the losses of its minibatches are in
  WaveReport report = wave_.close(wave, p, report_.evaluate_seconds);
  report.waits = {report_.bubble_seconds, report_.transfer_seconds, report_.server_wait_seconds,
                  report_.data_seconds};
  report.peak_memory = static_cast<std::int64_t>(device_.memory().peak());
  setup_.wave_done(report);
}

// A checkpoint is due behind this wave, with what continues it bit for bit.
bool Worker::keeps_exact(Wave wave) const {
  return setup_.waves && setup_.policy.visible == Visible::exactly &&
         synchronizer_.saves(wave + 1) == Saves::exactly;
}

// A checkpoint is due behind the wave of p: hands over what only this rank knows.
void Worker::save_state(Minibatch p) {
  const Wave wave = rules_.wave_of(p);
  StageState state{.label = wave + 1, .slots = {}, .statistics = {}, .exact = {}};
  for (const Buffer& slot : optimizer_.slots()) state.slots.push_back(download(slot));
  if (setup_.waves) {
    state.statistics = statistics_.of_wave(wave);
    if (setup_.policy.visible == Visible::exactly) {
      const bool inside = exact_inside_.has_value();
      state.exact = inside ? std::move(exact_inside_) : weights_.exact(wave);
      if (setup_.scaled && chunks_.back()->has_loss()) {
        state.loss_scale = inside ? loss_scale_.state_after(p) : loss_scale_.state();
      }
    }
  } else {
    state.statistics = statistics_.average(wave + 1, synchronizer_);
    state.weights = download(weights_.everything()->values);
    if (average_) state.average = download(average_->values());
  }
  settle("the state for a checkpoint");
  synchronizer_.save(state);
}

// Nobody needs them where there is nothing to evaluate.
std::vector<Buffer> Worker::foreign_for_evaluation(Label label, const Buffer& own) {
  if (setup_.test.numbers.empty()) return {};
  return tied_.exchange_for_evaluation(label, own.as<float>());
}

void Worker::evaluate(Minibatch p) {
  ahead_.finish();
  std::int64_t start = now_ns();
  EvaluationReport sum;
  if (setup_.waves) {
    const Minibatch end = rules_.end[at(setup_.place.virtual_worker.value)];
    const bool final = p >= end;
    const Wave gate = final ? rules_.end_label() + rules_.distance + 1 : rules_.wave_of(p);
    const Label label = final ? rules_.end_label() : rules_.bound_label(gate);
    weights_.let_go(gate, label);  // the gate's pull comes next, if anything
    evaluated_ = synchronizer_.pull(
        gate, final ? rules_.end_snapshot() : label, WithStatistics::yes,
        setup_.ema > 0 ? WeightsFor::evaluation_by_average : WeightsFor::training);
    start = now_ns();  // until now it waited for those who train
    const std::vector<Buffer> foreign = foreign_for_evaluation(label, evaluated_->weights);
    sum = evaluator_.evaluate(label, evaluated_->weights.as<float>(), foreign,
                              evaluated_->statistics.as<float>());
    tied_.evaluated();
    if (setup_.ema > 0) evaluated_.reset();  // nobody trains with them
  } else {                                   // of what is here, behind the update of p
    const Label label = rules_.wave_of(p) + 1;
    const bool last = p + 1 >= rules_.end[at(setup_.place.virtual_worker.value)];
    using Next = LocalWeights::Next;
    if (!average_) weights_.make_visible(last ? Next::nothing : Next::forward);
    const auto everything = average_ ? nullptr : weights_.everything();
    const Buffer& weights = average_ ? average_->values() : everything->values;
    const std::vector<float>& mean = statistics_.average(label, synchronizer_);
    Buffer statistics(device_, stream_, mean.size() * sizeof(float), MemoryKind::workspace);
    device_.copy(stream_, statistics.data(), reinterpret_cast<const std::byte*>(mean.data()),
                 statistics.bytes());
    settle("averaged running statistics");
    const std::vector<Buffer> foreign = foreign_for_evaluation(label, weights);
    sum = evaluator_.evaluate(label, weights.as<float>(), foreign, statistics.as<float>());
    tied_.evaluated();
  }
  sum.virtual_worker = setup_.place.virtual_worker.value;
  sum.replica = setup_.place.replica;
  evaluated_label_ = sum.label;
  if (chunks_.back()->has_loss()) setup_.evaluated(sum);
  const std::int64_t now = now_ns();
  report_.evaluate_seconds += seconds_between(start, now);
  wave_.leave_out(now - start);
  ahead_.restart();
}

}  // namespace hetpipe
