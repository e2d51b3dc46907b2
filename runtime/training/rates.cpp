// SPDX-License-Identifier: Apache-2.0
#include "runtime/training/rates.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "partitioner/plan/optimizer_rule.h"
#include "partitioner/plan/system.h"

namespace hetpipe {
namespace {

constexpr double kDecay = 0.1;
constexpr double kHarmless = 5;  // updates that do not see each other

// Of a damped step: of so many samples, rather than of 32.
double growth_with_sums(std::int64_t samples) {
  return std::clamp(std::sqrt(static_cast<double>(samples) / 32), 1.0, 4.0);
}

// What adam, rmsprop and muon damp with.
UsualTraining usually_damped(const Plan& plan, const System& system,
                             const OptimizerTraits& optimizer) {
  UsualTraining usual{.schedule = "polynomial", .warmup = 0.1, .damped = true};
  if (optimizer.orthogonal) {
    usual.rate = kDampedMuonRate;
    usual.momentum = 0.8;
    usual.weight_decay = 0;
  } else if (optimizer.alpha) {
    usual.rate = kDampedRmspropRate;
    usual.alpha = usual.damping = 0.9;
  } else {
    usual.rate = kDampedAdamRate;
    usual.beta1 = 0.8;
    usual.beta2 = usual.damping = 0.95;
    usual.damped_directions = kUsualDirections;
  }
  const bool steps = traits(system.sync).steps;
  if (!traits(system.sync).waves() || steps) {
    const std::int64_t samples = plan.global_batch() * (steps ? plan.wave_length() : 1);
    usual.rate = std::stod(format("%.2g", usual.rate * growth_with_sums(samples)));
  }
  return usual;
}

}  // namespace

UsualTraining usual_training(const Plan& plan) {
  const System system = composition(plan);
  const OptimizerTraits& optimizer = optimizer_named(plan.optimizer);
  if (usually_damps(system) && optimizer.usually_damps) {
    return usually_damped(plan, system, optimizer);
  }
  if (optimizer.orthogonal) return {.rate = kAdamRate, .momentum = 0.95};
  if (optimizer.moments || optimizer.alpha) return {.rate = kAdamRate};
  if (plan.optimizer != "sgd-momentum" || !traits(system.sync).waves()) return {};
  if (traits(system.sync).steps) return {};
  // Between rounds a virtual worker trains by itself.
  const int others =
      traits(system.sync).rounds ? 0 : static_cast<int>(plan.virtual_workers.size()) - 1;
  const int unseen = plan.in_flight + others * (2 * plan.in_flight - 1);
  const double rate = kSgdRate * std::pow(std::min(1.0, kHarmless / unseen), 1.5);
  return {.rate = std::stod(format("%.2g", rate)), .unseen_updates = unseen};
}

RateOptions with_usual(RateOptions options, const UsualTraining& usual, double epochs) {
  if (!options.schedule) options.schedule = usual.schedule;
  if (!options.warmup) options.warmup = usual.warmup * epochs;
  return options;
}

void check_rate_options(const RateOptions& options, Problems& problems) {
  const std::string schedule = options.schedule.value_or("constant");
  const RateRule rule = *try_parse_rate_rule(schedule);
  const auto useless = [&](bool given, const char* name, const std::string& user) {
    if (!given) return;
    problems.add(name, "cannot be combined with --lr-schedule " + schedule +
                           " (which does not use it). Leave it out, or give --lr-schedule " + user +
                           ".");
  };
  if (rule != RateRule::step) {
    useless(options.decay.has_value(), "--lr-decay", "step");
    useless(!options.steps.empty(), "--lr-steps", "step");
    useless(options.every.has_value(), "--lr-every", "step");
  }
  if (rule != RateRule::polynomial) useless(options.power.has_value(), "--lr-power", "polynomial");
  if (rule != RateRule::polynomial && rule != RateRule::cosine) {
    useless(options.final_rate.has_value(), "--lr-final", "cosine or polynomial");
  }
  if (rule == RateRule::step && options.steps.empty() == !options.every) {
    problems.add("--lr-schedule",
                 std::string("step ") +
                     (options.every ? "with both --lr-steps and --lr-every (either says when "
                                      "the rate falls). Leave one out."
                                    : "does not say when the rate falls. Give --lr-steps EPOCHS or "
                                      "--lr-every EPOCHS."));
  }
  if (!std::is_sorted(options.steps.begin(), options.steps.end())) {
    problems.add("--lr-steps",
                 "is not in ascending order (the rate falls at one epoch after the other). "
                 "Sort it.");
  }
}

RateSchedule rate_schedule(const RateOptions& options, const TrainJob& job) {
  const std::int64_t round = job.plan.global_batch();
  const auto minibatches = [&](double epochs) {
    return epochs * static_cast<double>(job.dataset_size) / static_cast<double>(round);
  };
  RateSchedule schedule;
  schedule.rule = *try_parse_rate_rule(options.schedule.value_or("constant"));
  schedule.warmup = minibatches(options.warmup.value_or(0));
  schedule.decay = options.decay.value_or(kDecay);
  for (const double epoch : options.steps) schedule.milestones.push_back(minibatches(epoch));
  schedule.every = minibatches(options.every.value_or(0));
  schedule.power = options.power.value_or(1);
  schedule.final_rate = options.final_rate.value_or(0);
  schedule.length = static_cast<double>(job.end_position) / static_cast<double>(round);
  const std::int64_t number = job.start.origin_label * job.plan.wave_length();
  schedule.shift =
      static_cast<double>(job.start.origin_consumed - number * round) / static_cast<double>(round);
  return schedule;
}

void check_rate_schedule(const RateOptions& options, const TrainJob& job, Problems& problems) {
  const RateSchedule schedule = rate_schedule(options, job);
  if (schedule.warmup > schedule.length) {
    problems.add(
        "--lr-warmup",
        format("%g epochs are longer than the training of %g. Lower it, or raise --epochs.",
               *options.warmup,
               static_cast<double>(job.end_position) / static_cast<double>(job.dataset_size)));
  }
  if (schedule.final_rate > job.optimizer.learning_rate) {
    problems.add("--lr-final",
                 format("%g is above the learning rate of %g (the rate falls to it). Give a "
                        "smaller one, or another --learning-rate.",
                        schedule.final_rate, job.optimizer.learning_rate));
  }
}

}  // namespace hetpipe
