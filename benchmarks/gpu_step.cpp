// SPDX-License-Identifier: Apache-2.0
// One row of the table gpu-step: a training step against PyTorch's on the same device, eager and
// compiled. Options as in kUsage; what follows -- starts torch_step.py.
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <memory>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "base/time.h"
#include "benchmarks/statistics.h"
#include "benchmarks/step_table.h"
#include "runtime/model/zoo.h"

namespace hetpipe::bench {
namespace {

constexpr const char* kUsage =
    "usage: gpu_step --model M --sample 224x224x3|T --classes N --batch N --precision P\n"
    "                --optimizer O --device D --plan-cache FILE --turns N --turn-seconds S\n"
    "                --modes eager,default,... --raw FILE.json [--profile yes] -- PEER...\n";
constexpr int kWarm = 5;

using Options = std::map<std::string, std::string>;

// Of PyTorch's ways to run a step: how fast alone.
struct Way {
  std::string mode;
  double first_seconds = 0;  // of its first step, compiling included
  double seconds = 0;        // per step, of the median turn; 0: it failed
  double memory = 0;         // bytes, at the peak
};

StepSetting setting_of(const Options& o) {
  return {.model = o.at("model"),
          .sample = sample_named(o.at("sample")),
          .classes = std::stoi(o.at("classes")),
          .batch = std::stoi(o.at("batch")),
          .device = o.at("device"),
          .gpu = {.index = 0,
                  .precision = precision_named(o.at("precision")),
                  .plan_cache = o.at("plan-cache")},
          .optimizer = o.at("optimizer")};
}

double memory_of(Peer& peer) {
  peer.say("memory");
  return std::stod(peer.hear());
}

class Row {
 public:
  Row(const Options& options, const std::vector<std::string>& command)
      : options_(options),
        setting_(setting_of(options)),
        model_(make_model(setting_.model, setting_.sample, setting_.classes)),
        command_(command) {}

  // A row for each mode that is faster than those before it, as soon as it is known: compiling may
  // take longer than there is time.
  void compare() {
    std::vector<Way> ways;
    double fastest = std::numeric_limits<double>::infinity();
    std::unique_ptr<TrainingStep> step;
    for (const std::string& mode : split(options_.at("modes"), ',')) {
      auto [way, peer] = alone(mode);
      ways.push_back(way);
      if (peer == nullptr || way.seconds >= fastest) continue;
      fastest = way.seconds;
      if (step == nullptr) {
        step = std::make_unique<TrainingStep>(setting_);
        const std::int64_t start = now_ns();
        seconds_of(*step, 1);
        std::fprintf(stderr, "hetpipe: first step after %.1f s\n",
                     seconds_between(start, now_ns()));
      }
      seconds_of(*step, kWarm);
      seconds_of(*peer, kWarm);
      const auto [ours, theirs] =
          in_turns(*step, *peer, std::stoi(options_.at("turns")), turn_seconds());
      if (!std::isfinite(step->loss())) throw SystemError("the training diverged");
      print(ways, ours, theirs, static_cast<double>(step->device().memory().peak()));
    }
    if (step == nullptr) throw SystemError("none of PyTorch's modes ran (its messages are above)");
  }

  void profile() { print_where_a_step_goes(setting_, name(), command("eager")); }

 private:
  double turn_seconds() const { return std::stod(options_.at("turn-seconds")); }
  std::string name() const {
    return format("%s, %s, batch %d", setting_.model.c_str(), options_.at("precision").c_str(),
                  setting_.batch);
  }

  std::vector<std::string> command(const std::string& mode) const {
    std::vector<std::string> words = peer_command(command_, setting_);
    words.insert(words.end(), {"--device", setting_.device == "cuda" ? "cuda" : "cpu",
                               "--precision", options_.at("precision"), "--mode", mode});
    return words;
  }

  std::pair<Way, std::unique_ptr<Peer>> alone(const std::string& mode) {
    Way way{.mode = mode};
    auto peer = std::make_unique<Peer>(command(mode));
    check_ready(*peer, model_);
    try {
      way.first_seconds = seconds_of(*peer, 1);
      seconds_of(*peer, kWarm);
      const int steps = steps_per_turn(seconds_of(*peer, 3) / 3, turn_seconds());
      std::vector<double> turns;
      for (int turn = 0; turn < 3; ++turn) turns.push_back(seconds_of(*peer, steps) / steps);
      way.seconds = spread_of(turns).median;
      way.memory = memory_of(*peer);
      std::fprintf(stderr, "PyTorch, %s: first step %.1f s, then %.2f ms\n", mode.c_str(),
                   way.first_seconds, 1e3 * way.seconds);
      return {way, std::move(peer)};
    } catch (const SystemError& error) {
      std::fprintf(stderr, "PyTorch, %s: %s\n", mode.c_str(), error.what());
      return {way, nullptr};
    }
  }

  // Against the last of the ways.
  void print(const std::vector<Way>& ways, const std::vector<double>& ours,
             const std::vector<double>& theirs, double our_memory) const {
    const double batch = setting_.batch;
    std::vector<double> our_rates, their_rates;
    for (const double seconds : ours) our_rates.push_back(batch / seconds);
    for (const double seconds : theirs) their_rates.push_back(batch / seconds);
    const Spread ratio = spread_of(ratios(our_rates, their_rates));
    std::string alone;
    for (const Way& way : ways) {
      alone += way.seconds == 0 ? way.mode + " failed; "
                                : format("%s %.1f (%.0f s); ", way.mode.c_str(),
                                         batch / way.seconds, way.first_seconds);
    }
    alone.resize(alone.size() - 2);
    std::printf("| %s | %s | %s | %s | %s | %.2f | %.2f | %s |\n", name().c_str(),
                to_string(spread_of(our_rates), "%.1f").c_str(), alone.c_str(),
                (ways.back().mode + " " + to_string(spread_of(their_rates), "%.1f")).c_str(),
                to_string(ratio, "%.3f").c_str(), our_memory / 1e9, ways.back().memory / 1e9,
                ratio.median >= 1 ? "yes" : "no");
    std::fflush(stdout);
    RawValues raw(options_.at("raw"));
    raw.add(name() + ", hetpipe, samples/s", our_rates);
    raw.add(name() + ", PyTorch " + ways.back().mode + ", samples/s", their_rates);
  }

  const Options& options_;
  StepSetting setting_;
  Model model_;
  std::vector<std::string> command_;
};

int run(int argc, char** argv) {
  Options options;
  int i = 1;
  for (; i + 1 < argc && std::string(argv[i]) != "--"; i += 2) {
    options[std::string(argv[i]).substr(2)] = argv[i + 1];
  }
  for (const char* name : {"model", "sample", "classes", "batch", "precision", "optimizer",
                           "device", "plan-cache", "turns", "turn-seconds", "modes", "raw"}) {
    if (!options.contains(name)) throw UserError("", format("--%s is missing\n%s", name, kUsage));
  }
  if (i + 1 >= argc) throw UserError("", kUsage);
  Row row(options, {argv + i + 1, argv + argc});
  options.contains("profile") ? row.profile() : row.compare();
  return 0;
}

}  // namespace
}  // namespace hetpipe::bench

int main(int argc, char** argv) {
  try {
    return hetpipe::bench::run(argc, argv);
  } catch (const hetpipe::UserError& error) {
    std::fprintf(stderr, "gpu_step: %s\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gpu_step: %s\n", error.what());
    return 3;
  }
}
