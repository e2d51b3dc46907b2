// SPDX-License-Identifier: Apache-2.0
#include "runtime/training/reporter.h"

#include <algorithm>
#include <set>

#include "base/index.h"
#include "base/text.h"
#include "base/time.h"
#include "runtime/training/exact.h"

namespace hetpipe {
namespace {

// Nothing where there is nothing to count.
std::optional<double> share(std::int64_t part, std::int64_t whole) {
  if (whole == 0) return std::nullopt;
  return static_cast<double>(part) / static_cast<double>(whole);
}

constexpr std::int64_t kProgressEvery = 200'000'000;  // ns

double added(const std::map<std::pair<int, int>, double>& parts) {
  double sum = 0;
  for (const auto& [place, part] : parts) sum += part;
  return sum;
}

int ranks_of(const PlanVirtualWorker& vw) {
  std::set<DeviceName> devices;  // one of an interleaved schedule has several stages
  for (const PlanStage& stage : vw.stages) {
    devices.insert(stage.devices.begin(), stage.devices.end());
  }
  return static_cast<int>(devices.size());
}

}  // namespace

Reporter::Reporter(const TrainJob& job, const WaveRules& rules, const Sampler& sampler,
                   const Roles& roles, std::vector<SlowRanks::Place> places, RankService& service,
                   Log& log, TraceWriter* trace)
    : job_(job),
      rules_(rules),
      sampler_(sampler),
      roles_(roles),
      slow_ranks_(std::move(places)),
      service_(service),
      log_(log),
      trace_(trace),
      start_ns_(now_ns()),
      next_wave_(rules.start_wave()),
      planned_evaluations_(job, rules),
      next_evaluation_(planned_evaluations_.first()),
      ranks_left_(static_cast<std::size_t>(job.plan.worker_ranks())),
      last_checkpoint_(job.checkpoint_folder.empty() || rules.end_label() == rules.start_wave()) {
  const Minibatch last = *std::max_element(rules.end.begin(), rules.end.end());
  total_samples_ = sampler.consumed(last - rules.first_minibatch()) -
                   sampler.consumed(rules.start_minibatch() - rules.first_minibatch());
  if (job.monitored.any()) live_.emplace(job, rules, sampler, total_samples_, roles, log);
  service.on<WaveDone>([this](Rank from, const WaveDone& wave) { on_wave(from, wave.report); });
  service.on<LabelEvaluated>(
      [this](Rank, const LabelEvaluated& label) { on_evaluation(label.report); });
  service.on<RankDone>([this](Rank from, const RankDone& rank) {
    if (live_) live_->rank_done(from, rank.report);
    const RankReport& report = outcome_.ranks.emplace_back(rank.report);
    outcome_.evaluation_seconds = std::max(outcome_.evaluation_seconds, report.evaluate_seconds);
    --ranks_left_;
    outcome_.seconds = job_.time ? std::max(outcome_.seconds, report.total_seconds)
                                 : seconds_between(start_ns_, now_ns());
  });
  service.on<CheckpointWritten>([this](Rank, const CheckpointWritten& written) {
    outcome_.checkpoint = written.path;
    if (live_) live_->checkpoint_written(written.label, written.path);
    log_.line(format("checkpoint after wave %lld: %s", static_cast<long long>(written.label),
                     outcome_.checkpoint.c_str()));
    last_checkpoint_ |= written.label == rules_.end_label();
  });
  service.on<CheckpointFailed>(
      [this](Rank, const CheckpointFailed& failed) { on_checkpoint_failed(failed); });
  service.on<CheckpointLeftOut>([this](Rank, const CheckpointLeftOut& left_out) {
    log_.line(format("no checkpoint after wave %lld: the previous one was still being written",
                     static_cast<long long>(left_out.label)));
  });
}

void Reporter::on_checkpoint_failed(const CheckpointFailed& failed) {
  const bool last = failed.label == rules_.end_label();
  log_.warning(format("checkpoint after wave %lld was not written: %s; %s%s",
                      static_cast<long long>(failed.label), failed.why.c_str(),
                      newest_checkpoint_text().c_str(), last ? "" : "; training continues"));
  if (!last) return;
  outcome_.not_written = failed.why;
  outcome_.code = failed.code;
  last_checkpoint_ = true;
}

void Reporter::stopping(Label label, const StopWanted& by) {
  outcome_.stopped = label;
  if (live_) live_->stopping(label);
  outcome_.stopped_at_target = by.signal == kTargetReached;
  const std::string why =
      outcome_.stopped_at_target ? "target accuracy reached"
      : by.signal == kRehearsal
          ? format("rehearsed preemption after %d waves", job_.rehearse_preemption)
          : format("%s on rank %d", signal_name(by.signal), by.rank.value);
  if (rules_.stopped_inside()) {
    const Minibatch last = *rules_.stopped_before;
    log_.line(format(
        "%s: stopping inside of wave %lld, after %lld of its %lld minibatches, since its "
        "end may come after the notice (--notice) of %s; then a checkpoint",
        why.c_str(), static_cast<long long>(label),
        static_cast<long long>(last - (label - 1) * rules_.length()),
        static_cast<long long>(rules_.length()), format_seconds(job_.notice_seconds).c_str()));
    return;
  }
  const double now = seconds_between(start_ns_, now_ns());
  const std::optional<double> left = stop_forecast_.until(label - next_wave_, now);
  log_.line(format("%s: stopping after wave %lld, then a checkpoint%s", why.c_str(),
                   static_cast<long long>(label),
                   left ? (", in about " + format_seconds(*left)).c_str() : ""));
  if (job_.notice_seconds > 0 && by.signal > 0 && left && *left > job_.notice_seconds) {
    log_.warning(
        format("wave %lld is expected to end %s after the request, and the notice "
               "(--notice) is %s: the run may be ended before its checkpoint is written; "
               "%s",
               static_cast<long long>(label), format_seconds(*left).c_str(),
               format_seconds(job_.notice_seconds).c_str(), newest_checkpoint_text().c_str()));
  }
}

std::string Reporter::newest_checkpoint_text() const {
  return outcome_.checkpoint.empty() ? "none was written before"
                                     : "the newest is " + outcome_.checkpoint;
}

// Said once, long before somebody asks.
void Reporter::check_notice() {
  const std::optional<double> wave = stop_forecast_.wave_seconds();
  if (notice_checked_ || job_.notice_seconds <= 0 || !wave) return;
  notice_checked_ = true;
  const Wave waves = StopForecast::waves_at_most(rules_);
  const double longest = static_cast<double>(waves) * *wave;
  if (longest <= job_.notice_seconds) return;
  const bool inside = has_waves(job_.plan) && rules_.distance < kUnbounded;
  if (inside && writes_exact(job_, rules_)) return;  // nothing is lost
  log_.warning(format(
      "a stop on request takes up to %lld waves of %s, and the notice (--notice) is %s: %s. Ask "
      "for a notice of %s or more, or plan for fewer minibatches in flight (--in-flight).",
      static_cast<long long>(waves), format_seconds(*wave).c_str(),
      format_seconds(job_.notice_seconds).c_str(),
      inside ? "it may come inside of a wave, and the resumed run start with empty pipelines"
             : "the run may be ended before its last checkpoint, and lose what follows the one "
               "before",
      format_seconds(longest).c_str()));
}

void Reporter::ended(const std::string& exit, ExitCode code) {
  if (live_) live_->ended(exit, code);
}

bool Reporter::rehearsal_due() const {
  return job_.rehearse_preemption > 0 &&
         next_wave_ - rules_.start_wave() >= job_.rehearse_preemption;
}

double Reporter::Outcome::training_seconds() const {
  return std::max(seconds - evaluation_seconds, 1e-9);
}

double Reporter::Outcome::throughput() const {
  return static_cast<double>(samples) / training_seconds();
}

// One of each rank that plays the wave.
int Reporter::expected_reports(Wave wave) const {
  int expected = 0;
  for (int i = 0; i < rules_.workers(); ++i) {
    if (wave < rules_.end_wave(VirtualWorkerId{i})) {
      expected += ranks_of(job_.plan.virtual_workers[static_cast<std::size_t>(i)]);
    }
  }
  return expected;
}

// One of each rank that holds the loss.
std::size_t Reporter::expected_evaluations() const {
  std::size_t expected = 0;
  for (const PlanVirtualWorker& vw : job_.plan.virtual_workers) {
    expected += vw.stages.back().devices.size();
  }
  return expected;
}

void Reporter::on_wave(Rank from, const WaveReport& report) {
  service_.give_life_sign();
  if (live_) live_->wave_reported(from, report);
  if (!started_) {
    started_ = true;
    start_ns_ = now_ns() - to_ns(report.elapsed_seconds);
    stop_forecast_.started(0);
  }
  WaveSum& sum = waves_[report.wave];
  const bool first = ++sum.reports == 1;
  sum.staleness_min =
      first ? report.staleness_min : std::min(sum.staleness_min, report.staleness_min);
  sum.staleness_max =
      first ? report.staleness_max : std::max(sum.staleness_max, report.staleness_max);
  if (report.samples > 0) {  // a last stage's
    sum.samples += report.samples;
    sum.labels += report.labels;
    sum.correct += report.correct;
    sum.loss_sums[{report.virtual_worker, report.replica}] = report.loss_sum;
    sum.samples_per_second +=
        static_cast<double>(report.samples) / std::max(report.elapsed_seconds, 1e-9);
    const OptimizerOptions& servers = job_.optimizer;  // where they have it
    sum.learning_rate =
        optimizer_at_servers(job_.plan)
            ? rate_at(servers.schedule, servers.learning_rate, report.last_minibatch)
            : report.learning_rate;
  }
  sum.computing.resize(roles_.of_rank.size());
  if (report.computed_samples > 0) {
    sum.computing[at(from.value)] =
        report.compute_seconds / static_cast<double>(report.computed_samples);
  }
  sum.elapsed += report.elapsed_seconds;
  double& trained = trained_[from.value];
  trained += report.elapsed_seconds;
  sum.until = std::max(sum.until, trained + report.evaluated_seconds);
  sum.evaluated = std::max(sum.evaluated, report.evaluated_seconds);
  sum.server_wait += report.server_wait_seconds;
  sum.step = std::max(sum.step, rules_.minibatches_done(report.last_minibatch + 1));
  print_waves();
}

void Reporter::print_waves() {
  for (auto next = waves_.find(next_wave_);
       next != waves_.end() && next->second.reports == expected_reports(next_wave_);
       next = waves_.find(next_wave_)) {
    watch_paces(next_wave_, next->second);
    print_wave(next_wave_, next->second);
    ++next_wave_;
    // The longest evaluation of any rank may end on another rank than the wave: time does not go
    // back for that.
    last_label_seconds_ =
        std::max(last_label_seconds_, next->second.until - next->second.evaluated);
    if (evaluation_is_to_come()) label_seconds_[next_wave_] = last_label_seconds_;
    waves_.erase(next);
  }
  finish_evaluations();
}

void Reporter::print_wave(Wave wave, const WaveSum& sum) {
  const bool first = outcome_.samples == 0;
  outcome_.staleness_min =
      first ? sum.staleness_min : std::min(outcome_.staleness_min, sum.staleness_min);
  outcome_.staleness_max = std::max(outcome_.staleness_max, sum.staleness_max);
  outcome_.samples += sum.samples;
  const double loss =
      added(sum.loss_sums) / static_cast<double>(std::max<std::int64_t>(sum.samples, 1));
  const std::optional<double> accuracy = share(sum.correct, sum.labels);
  const std::string hits = accuracy ? format("  acc %5.2f%%", 100 * *accuracy) : "";
  const double wait = sum.elapsed > 0 ? sum.server_wait / sum.elapsed : 0;
  const double elapsed = seconds_between(start_ns_, now_ns());
  const double left = elapsed * static_cast<double>(total_samples_ - outcome_.samples) /
                      static_cast<double>(std::max<std::int64_t>(outcome_.samples, 1));
  stop_forecast_.wave_done(elapsed);
  if (const auto remark = loss_watch_.next(wave, loss)) log_.warning(*remark);
  const bool shown = (wave + 1) % job_.log_every == 0 || first || wave + 1 == rules_.end_label();
  if (shown) {
    log_.line(
        format("wave %4lld/%lld  step %5lld  loss %.4f%s  lr %.4g  %6.0f samples/s  "
               "stale %lld..%lld  wait %4.1f%%  eta %s%s",
               static_cast<long long>(wave + 1), static_cast<long long>(rules_.end_label()),
               static_cast<long long>(sum.step), loss, hits.c_str(), sum.learning_rate,
               sum.samples_per_second, static_cast<long long>(sum.staleness_min),
               static_cast<long long>(sum.staleness_max), 100 * wait, format_seconds(left).c_str(),
               slow_text().c_str()));
  }
  check_notice();
  if (live_) {
    live_->wave_done({.label = wave + 1,
                      .samples = outcome_.samples,
                      .loss = loss,
                      .accuracy = accuracy,
                      .learning_rate = sum.learning_rate,
                      .samples_per_second = sum.samples_per_second,
                      .staleness_min = sum.staleness_min,
                      .staleness_max = sum.staleness_max,
                      .seconds_left = left},
                     slow_ranks_.slow_now());
  }
  if (trace_ == nullptr) return;
  trace_->metric("loss", wave, loss);
  if (accuracy) trace_->metric("accuracy", wave, *accuracy);
  trace_->metric("learning_rate", wave, sum.learning_rate);
  trace_->metric("samples_per_second", wave, sum.samples_per_second);
  trace_->metric("staleness_min", wave, static_cast<double>(sum.staleness_min));
  trace_->metric("staleness_max", wave, static_cast<double>(sum.staleness_max));
  trace_->metric("server_wait_fraction", wave, wait);
}

void Reporter::watch_paces(Wave wave, const WaveSum& sum) {
  for (const SlowRanks::Change& change : slow_ranks_.observe(wave, sum.computing)) {
    const std::string rank = format("rank %d (%s)", change.rank.value,
                                    to_string(roles_.of_rank[at(change.rank.value)]).c_str());
    if (change.slow) {
      log_.warning(format(
          "%s has become %.1f times slower, from wave %lld on: it computes for %s per sample, "
          "usually for %s. Look at its device (heat, power limit) and at what else runs there.",
          rank.c_str(), change.factor, static_cast<long long>(change.first + 1),
          format_seconds(change.factor * change.usual).c_str(),
          format_seconds(change.usual).c_str()));
    } else {
      log_.line(format("%s computes at its usual pace again; it was up to %.1f times slower",
                       rank.c_str(), change.factor));
    }
  }
}

std::string Reporter::slow_text() const {
  std::vector<std::string> slow;
  for (const SlowRanks::Slow& one : slow_ranks_.slow_now()) {
    slow.push_back(format("rank %d (%.1fx)", one.rank.value, one.factor));
  }
  return slow.empty() ? "" : "  slow: " + join(slow, ", ");
}

void Reporter::on_evaluation(const EvaluationReport& report) {
  service_.give_life_sign();
  EvaluationSum& sum = evaluations_[report.label];
  sum.samples += report.samples;
  sum.labels += report.labels;
  sum.correct += report.correct;
  sum.loss_sums[{report.virtual_worker, report.replica}] = report.loss_sum;
  finish_evaluations();
}

// Those that every virtual worker has reported, of labels whose last wave is in: the report of a
// push may come after that of an evaluation of what was pushed.
void Reporter::finish_evaluations() {
  for (auto next = evaluations_.begin(); next != evaluations_.end() && next->first <= next_wave_ &&
                                         next->second.loss_sums.size() == expected_evaluations();
       next = evaluations_.erase(next)) {
    finish_evaluation(next->first, next->second);
    next_evaluation_ = planned_evaluations_.next(next->first);
  }
}

void Reporter::finish_evaluation(Label label, const EvaluationSum& sum) {
  const auto seconds = label_seconds_.find(label);  // none of a label that the run started from
  const Evaluation evaluation{
      .label = label,
      .samples = sampler_.consumed(rules_.end_of(label) - rules_.first_minibatch()),
      .seconds = seconds == label_seconds_.end() ? 0 : seconds->second,
      .loss = added(sum.loss_sums) / static_cast<double>(sum.samples),
      .accuracy = share(sum.correct, sum.labels)};
  label_seconds_.erase(label_seconds_.begin(), label_seconds_.upper_bound(label));
  const std::string hits =
      evaluation.accuracy
          ? format(", test accuracy %.2f %% (%lld of %lld)", 100 * *evaluation.accuracy,
                   static_cast<long long>(sum.correct), static_cast<long long>(sum.labels))
          : "";
  log_.line(format("evaluation after wave %lld%s: test loss %.4f%s", static_cast<long long>(label),
                   job_.optimizer.ema > 0 ? " (average of the weights)" : "", evaluation.loss,
                   hits.c_str()));
  if (trace_ != nullptr) {
    trace_->metric("test_loss", label, evaluation.loss);
    if (evaluation.accuracy) trace_->metric("test_accuracy", label, *evaluation.accuracy);
  }
  if (live_) {
    live_->evaluated(label, evaluation.samples, evaluation.loss, evaluation.accuracy);
  }
  outcome_.test_loss = evaluation.loss;
  outcome_.test_accuracy = evaluation.accuracy;
  outcome_.evaluations.push_back(evaluation);
  if (!outcome_.target && job_.target_accuracy &&
      evaluation.accuracy.value_or(0) >= *job_.target_accuracy) {
    outcome_.target = evaluation;
    log_.line(target_text(job_, outcome_));
  }
}

void Reporter::started(Minibatch p) {
  const std::int64_t now = now_ns();
  if (now - last_progress_ns_ < kProgressEvery) return;
  last_progress_ns_ = now;
  log_.progress(format("wave %lld/%lld: virtual worker 0 starts minibatch %lld (%.0f %% done)%s",
                       static_cast<long long>(rules_.wave_of(p) + 1),
                       static_cast<long long>(rules_.end_label()),
                       static_cast<long long>(rules_.minibatches_done(p)),
                       100.0 * static_cast<double>(outcome_.samples) /
                           static_cast<double>(std::max<std::int64_t>(total_samples_, 1)),
                       slow_text().c_str()));
}

bool Reporter::complete() const {
  return next_wave_ == rules_.end_label() && !evaluation_is_to_come() && ranks_left_ == 0 &&
         last_checkpoint_;
}

// A run that stops comes by no gates behind that, and by no end.
bool Reporter::evaluation_is_to_come() const {
  if (!next_evaluation_ || !rules_.stopped_before) return next_evaluation_.has_value();
  const Label label = *next_evaluation_;
  if (!has_waves(job_.plan)) return label <= rules_.end_label();
  return planned_evaluations_.next(label) && gate_minibatch(rules_, label) < *rules_.stopped_before;
}

std::string Reporter::waiting_for() const {
  const std::string evaluation =
      evaluation_is_to_come()
          ? format(", the evaluation after wave %lld", static_cast<long long>(*next_evaluation_))
          : "";
  return format("the last reports (wave %lld of %lld%s, %zu ranks%s)",
                static_cast<long long>(next_wave_), static_cast<long long>(rules_.end_label()),
                evaluation.c_str(), ranks_left_, last_checkpoint_ ? "" : ", the last checkpoint");
}

}  // namespace hetpipe
