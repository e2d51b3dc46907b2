// SPDX-License-Identifier: Apache-2.0
// Table cpu-step: a training step of the zoo's convolutional networks against PyTorch on the same
// cores. cpu_step RAW.json PEER...: PEER is started as PEER... MODEL BATCH THREADS.
#include <cmath>
#include <cstdio>
#include <map>

#include "base/error.h"
#include "base/text.h"
#include "base/time.h"
#include "benchmarks/peer.h"
#include "benchmarks/statistics.h"
#include "benchmarks/training_step.h"
#include "kernels/devices.h"
#include "runtime/pipeline/measure.h"

namespace hetpipe::bench {
namespace {

constexpr int kPairs = 15;
constexpr double kTurnSeconds = 0.5;
constexpr double kGoal = 0.9;

struct Setting {
  std::string model;
  Shape sample;
  int batch;
  int threads;
};

std::string name_of(const Setting& s) {
  return format("%s, batch %d, %d thread%s", s.model.c_str(), s.batch, s.threads,
                s.threads == 1 ? "" : "s");
}

double seconds_of(TrainingStep& step, int count) {
  const std::int64_t start = now_ns();
  for (int i = 0; i < count; ++i) step.run();
  return seconds_between(start, now_ns());
}

double seconds_of(Peer& peer, int count) {
  peer.say(format("run %d", count));
  return std::stod(peer.hear());
}

// Both sides count the same parameters, or they do not train the same network.
void check_ready(const std::string& line, const Model& model) {
  const std::vector<std::string> words = split(line, ' ');
  if (words.size() < 4 || words[0] != "ready") {
    throw SystemError("the peer said '" + line + "' in place of ready");
  }
  if (std::stoll(words[1]) != model.parameter_count()) {
    throw SystemError(format("%s has %lld parameters here and %s at the peer", model.name().c_str(),
                             static_cast<long long>(model.parameter_count()), words[1].c_str()));
  }
}

std::vector<std::string> with(std::vector<std::string> command, const Setting& s) {
  command.insert(command.end(), {s.model, std::to_string(s.batch), std::to_string(s.threads)});
  return command;
}

// One row; true when the goal was met.
bool compare(const Setting& s, const std::vector<std::string>& command, RawValues& raw) {
  TrainingStep step(s.model, s.sample, s.batch, s.threads);
  Peer peer(with(command, s));
  check_ready(peer.hear(), step.model());
  // Warm: kernels are made, memory is touched, allocators have what they need.
  seconds_of(step, 5);
  seconds_of(peer, 5);
  const auto turns = [](double seconds) {
    return std::max(3, static_cast<int>(std::lround(5 * kTurnSeconds / seconds)));
  };
  const int ours_per_turn = turns(seconds_of(step, 5));
  const int theirs_per_turn = turns(seconds_of(peer, 5));
  std::vector<double> ours, theirs;
  for (int pair = 0; pair < kPairs; ++pair) {
    ours.push_back(seconds_of(step, ours_per_turn) / ours_per_turn);
    theirs.push_back(seconds_of(peer, theirs_per_turn) / theirs_per_turn);
  }
  ensure(std::isfinite(step.loss()), "training diverged");
  const Spread ratio = spread_of(ratios(ours, theirs));
  std::printf("| %s | %s | %s | %s | %s |\n", name_of(s).c_str(),
              to_string(spread_of(ours), "%.2f", 1e3).c_str(),
              to_string(spread_of(theirs), "%.2f", 1e3).c_str(), to_string(ratio, "%.3f").c_str(),
              ratio.median <= kGoal ? "yes" : "no");
  std::fflush(stdout);
  raw.add(name_of(s) + ", hetpipe, s", ours);
  raw.add(name_of(s) + ", PyTorch, s", theirs);
  return ratio.median <= kGoal;
}

// Our layers by what they are: "convolution 3x3, 16 channels" counts as convolution.
std::map<std::string, std::pair<double, double>> ours_by_kind(const Setting& s) {
  TrainingStep step(s.model, s.sample, s.batch, s.threads);
  const Profile profile = measure_profile(step.model(), step.device(), {s.batch},
                                          {.device = "cpu", .repetitions = 20, .on_batch = {}});
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

void profile(const Setting& s, const std::vector<std::string>& command) {
  std::printf("\n### Where a step goes: %s\n\nhetpipe, medians layer by layer:\n\n",
              name_of(s).c_str());
  std::printf("| layers | forward ms | backward ms |\n|---|---|---|\n");
  for (const auto& [kind, seconds] : ours_by_kind(s)) {
    std::printf("| %s | %.2f | %.2f |\n", kind.c_str(), 1e3 * seconds.first, 1e3 * seconds.second);
  }
  Peer peer(with(command, s));
  peer.hear();
  seconds_of(peer, 5);
  peer.say("profile 20");
  std::multimap<double, std::string, std::greater<>> operators;
  for (std::string line = peer.hear(); line != "end"; line = peer.hear()) {
    const std::vector<std::string> words = split(line, ' ');
    operators.emplace(std::stod(words.at(1)), words.at(0));
  }
  std::printf("\nPyTorch, its own profiler, operators of 1 %% and more:\n\n");
  std::printf("| operator | ms |\n|---|---|\n");
  double all = 0;
  for (const auto& [seconds, name] : operators) all += seconds;
  for (const auto& [seconds, name] : operators) {
    if (seconds >= 0.01 * all) std::printf("| %s | %.2f |\n", name.c_str(), 1e3 * seconds);
  }
  std::fflush(stdout);
}

void run(const std::string& raw_path, const std::vector<std::string>& command) {
  const Shape small{28, 28, 1}, colour{32, 32, 3};
  std::vector<Setting> settings;
  for (const auto& [model, sample] :
       {std::pair{"lenet", small}, std::pair{"resnet-8", colour}, std::pair{"resnet-20", colour}}) {
    for (int threads : {1, 2}) {
      for (int batch : {64, 128}) settings.push_back({model, sample, batch, threads});
    }
  }
  RawValues raw(raw_path);
  std::printf(
      "Time of a training step (samples in, forward, backward, update), in ms: median and "
      "quartiles of %d turns of %.1f s, the two sides in turns. The ratio is the median of "
      "the pairs; the goal is at most %.2f.\n\n",
      kPairs, kTurnSeconds, kGoal);
  std::printf("| network | hetpipe ms | PyTorch ms | hetpipe / PyTorch | goal met |\n");
  std::printf("|---|---|---|---|---|\n");
  int met = 0;
  for (const Setting& s : settings) met += compare(s, command, raw);
  std::printf("\n%d of %zu rows meet the goal.\n", met, settings.size());
  for (const Setting& s : settings) {
    if (s.batch == 64 && s.threads == 1) profile(s, command);
  }
}

}  // namespace
}  // namespace hetpipe::bench

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: cpu_step RAW.json PEER...\n");
    return 2;
  }
  try {
    hetpipe::bench::run(argv[1], {argv + 2, argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "cpu_step: %s\n", error.what());
    return 3;
  }
  return 0;
}
