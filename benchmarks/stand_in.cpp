// SPDX-License-Identifier: Apache-2.0
// In the place of torch_step.py where a trial finds no PyTorch: the same training step, computed by
// hetpipe, on the other end of the same lines. Takes torch_step.py's options.
#include <cstdio>
#include <iostream>
#include <map>
#include <sstream>

#include "benchmarks/step_table.h"

namespace hetpipe::bench {
namespace {

void answer(TrainingStep& step) {
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string what;
    int count = 0;
    words >> what >> count;
    if (what == "quit") return;
    if (what == "memory") {
      std::printf("%lld\n", static_cast<long long>(step.device().memory().peak()));
    } else if (what == "run") {
      std::printf("%.9f\n", seconds_of(step, count));
    } else if (what == "profile") {
      std::printf("the_whole_step %.9f\nend\n", seconds_of(step, count) / count);
    }
    std::fflush(stdout);
  }
}

void run(int argc, char** argv) {
  std::map<std::string, std::string> options;
  for (int i = 1; i + 1 < argc; i += 2) options[argv[i]] = argv[i + 1];
  TrainingStep step({.model = options.at("--model"),
                     .sample = sample_named(options.at("--sample")),
                     .classes = std::stoi(options.at("--classes")),
                     .batch = std::stoi(options.at("--batch")),
                     .threads = std::stoi(options.at("--threads")),
                     .optimizer = options.at("--optimizer")});
  std::printf("ready %lld %.0f hetpipe itself\n",
              static_cast<long long>(step.model().parameter_count()),
              flops_in_products(step.model()));
  std::fflush(stdout);
  answer(step);
}

}  // namespace
}  // namespace hetpipe::bench

int main(int argc, char** argv) {
  try {
    hetpipe::bench::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "stand_in: %s\n", error.what());
    return 3;
  }
  return 0;
}
