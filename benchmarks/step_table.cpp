// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/step_table.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <variant>

#include "base/error.h"
#include "base/text.h"
#include "base/time.h"
#include "runtime/pipeline/measure.h"

namespace hetpipe::bench {
namespace {

constexpr int kProbe = 3;  // steps that tell how many fill a turn
constexpr double kFlopsTolerance = 0.01;

// Our layers by what they are: "convolution 3x3, 16 channels" counts as convolution.
std::map<std::string, std::pair<double, double>> ours_by_kind(const StepSetting& s) {
  TrainingStep step(s);
  const Profile profile = measure_profile(step.model(), step.device(), {s.batch},
                                          {.device = s.device, .repetitions = 20, .on_batch = {}});
  const Measurement& m = profile.measurements.front();
  std::map<std::string, std::pair<double, double>> kinds;
  for (int i = 0; i < step.model().layer_count(); ++i) {
    const std::string text = to_string(step.model().layer(i).spec);
    const std::string kind = text.substr(0, text.find_first_of(",0123456789"));
    const auto l = static_cast<std::size_t>(i);
    kinds[kind].first += m.forward[l];
    kinds[kind].second += m.backward[l];
    kinds["update"].second += m.update[l];
  }
  return kinds;
}

std::string sample_text(const Shape& sample) {
  std::string text = std::to_string(sample[0]);
  for (int i = 1; i < sample.rank(); ++i) text += "x" + std::to_string(sample[i]);
  return text;
}

}  // namespace

Shape sample_named(const std::string& text) {
  std::vector<std::int64_t> extents;
  for (const std::string& word : split(text, 'x')) extents.push_back(std::stoll(word));
  return Shape(std::span<const std::int64_t>(extents));
}

double flops_in_products(const Model& model) {
  double flops = 0;
  for (int l = 0; l < model.layer_count(); ++l) {
    const LayerSpec& spec = model.layer(l).spec;
    if (std::holds_alternative<Convolution>(spec) || std::holds_alternative<Linear>(spec) ||
        std::holds_alternative<SelfAttention>(spec)) {
      flops += model.shapes(l, 1).forward_flops;
    }
  }
  return flops;
}

std::vector<std::string> peer_command(std::vector<std::string> command, const StepSetting& s) {
  command.insert(command.end(),
                 {"--model", s.model, "--sample", sample_text(s.sample), "--classes",
                  std::to_string(s.classes), "--batch", std::to_string(s.batch), "--threads",
                  std::to_string(s.threads), "--optimizer", s.optimizer});
  return command;
}

double seconds_of(TrainingStep& step, int count) {
  const std::int64_t start = now_ns();
  for (int i = 0; i < count; ++i) step.run();
  step.finish();
  return seconds_between(start, now_ns());
}

double seconds_of(Peer& peer, int count) {
  peer.say(format("run %d", count));
  return std::stod(peer.hear());
}

void check_ready(Peer& peer, const Model& model) {
  const std::string line = peer.hear();
  const std::vector<std::string> words = split(line, ' ');
  if (words.size() < 3 || words[0] != "ready") {
    throw SystemError("the peer printed '" + line + "' instead of ready");
  }
  if (std::stoll(words[1]) != model.parameter_count()) {
    throw SystemError(format("%s has %lld parameters here and %s at the peer", model.name().c_str(),
                             static_cast<long long>(model.parameter_count()), words[1].c_str()));
  }
  const double ours = flops_in_products(model), theirs = std::stod(words[2]);
  if (std::abs(theirs - ours) > kFlopsTolerance * ours) {
    throw SystemError(
        format("a sample's forward through %s takes %.0f flops here and %.0f at the "
               "peer",
               model.name().c_str(), ours, theirs));
  }
}

int steps_per_turn(double seconds_per_step, double turn_seconds) {
  return std::max(3, static_cast<int>(std::lround(turn_seconds / seconds_per_step)));
}

InTurns in_turns(TrainingStep& step, Peer& peer, int turns, double turn_seconds) {
  const int ours = steps_per_turn(seconds_of(step, kProbe) / kProbe, turn_seconds);
  const int theirs = steps_per_turn(seconds_of(peer, kProbe) / kProbe, turn_seconds);
  InTurns times;
  for (int turn = 0; turn < turns; ++turn) {
    times.ours.push_back(seconds_of(step, ours) / ours);
    times.theirs.push_back(seconds_of(peer, theirs) / theirs);
  }
  return times;
}

void print_where_a_step_goes(const StepSetting& s, const std::string& name,
                             const std::vector<std::string>& peer_command) {
  std::printf("\n### Where a step goes: %s\n\nhetpipe, medians layer by layer:\n\n", name.c_str());
  std::printf("| layers | forward ms | backward ms |\n|---|---|---|\n");
  for (const auto& [kind, seconds] : ours_by_kind(s)) {
    std::printf("| %s | %.2f | %.2f |\n", kind.c_str(), 1e3 * seconds.first, 1e3 * seconds.second);
  }
  std::fflush(stdout);
  Peer peer(peer_command);
  peer.hear();
  seconds_of(peer, 5);
  peer.say("profile 20");
  std::multimap<double, std::string, std::greater<>> operators;
  for (std::string line = peer.hear(); line != "end"; line = peer.hear()) {
    const std::vector<std::string> words = split(line, ' ');
    operators.emplace(std::stod(words.at(1)), words.at(0));
  }
  std::printf("\nPyTorch, from its own profiler, operators of 1 %% and more:\n\n");
  std::printf("| operator | ms |\n|---|---|\n");
  double all = 0;
  for (const auto& [seconds, operation] : operators) all += seconds;
  for (const auto& [seconds, operation] : operators) {
    if (seconds >= 0.01 * all) std::printf("| %s | %.2f |\n", operation.c_str(), 1e3 * seconds);
  }
  std::fflush(stdout);
}

}  // namespace hetpipe::bench
