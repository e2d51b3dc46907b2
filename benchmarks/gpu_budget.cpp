// SPDX-License-Identifier: Apache-2.0
// Table gpu-budget: what a training step of GPT-2 and of ResNet-50 asks of cards, layer by layer,
// and the time that it takes at least by their data sheets. Needs no card: launches are counted on
// the CUDA double.
// gpu_budget [--smallest] RAW.json MODULE: the double's module.
#include <algorithm>
#include <cstdio>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "benchmarks/budget_counts.h"
#include "benchmarks/smallest.h"
#include "kernels/cuda_loader.h"
#include "partitioner/cluster/catalogue.h"
#include "runtime/model/zoo.h"

namespace hetpipe::bench {
namespace {

struct CardRow {
  const char* name;  // in the catalogue
  Precision precision;
  int major, minor;       // that is counted
  bool measured = false;  // a record of its own has what was measured there
};

// The V100 is counted as a 7.5: the device decides by 8.0 alone.
constexpr CardRow kCards[] = {
    {"h100-sxm-80gb", Precision::bf16, 9, 0}, {"a100-sxm-80gb", Precision::bf16, 8, 0},
    {"rtx-3090", Precision::bf16, 8, 6},      {"rtx-2060", Precision::fp16, 7, 5},
    {"v100-sxm-32gb", Precision::fp16, 7, 5}, {"h200-sxm-141gb", Precision::bf16, 9, 0, true}};

struct Network {
  const char* name;
  const char* title;
  Shape sample;
  int classes;
  bool adam;
  std::int64_t units;  // of one sample, in which its throughput is told
  const char* unit;
  int most;            // samples that are tried first
  int measured_batch;  // of the record of the H200
  double measured;     // units per second there (results/2026-11-26-gpu.md)
  double peer;         // units per second, published
  const char* whose;
};

const Network kGpt2{"gpt2",   "GPT-2 (124 M), 1,024 tokens",
                    {1024},   50257,
                    true,     1024,
                    "tokens", 64,
                    16,       417.2 * 1024,
                    468e3,    "llm.c, one H100"};
const Network kResnet50{
    "resnet-50", "ResNet-50, 224 x 224", {224, 224, 3}, 1000, false, 1, "images", 256, 128, 5823.9,
    3079,        "PyTorch AMP, one H200"};

struct Step {
  const CardRow* card;
  Rates rates;
  Budget budget;
};

DeviceKind kind_of(const CardRow& card) {
  const CatalogueEntry* const entry = find_in_catalogue(card.name);
  ensure(entry != nullptr, "a card of the catalogue");
  return kind_from(*entry, card.name);
}

double seconds_of(const BudgetRow& row, const Rates& rates) {
  return roofline(row.forward, rates) + roofline(row.backward, rates);
}

const char* limit_of(const BudgetRow& row, const Rates& rates) {
  const Work work{row.forward.flops + row.backward.flops, row.forward.bytes + row.backward.bytes,
                  row.forward.operations + row.backward.operations};
  const double launches = work.operations * rates.launch_latency;
  const double flops = work.flops / rates.flops, bytes = work.bytes / rates.bandwidth;
  return launches >= std::max(flops, bytes) ? "launches" : flops >= bytes ? "flops" : "bytes";
}

BudgetRow sum_of(const Budget& budget) {
  BudgetRow sum = budget.update;
  for (const BudgetRow& row : budget.rows) {
    for (const auto part : {&BudgetRow::forward, &BudgetRow::backward}) {
      (sum.*part).flops += (row.*part).flops;
      (sum.*part).bytes += (row.*part).bytes;
      (sum.*part).operations += (row.*part).operations;
    }
  }
  return sum;
}

double step_seconds(const Step& step) {
  double seconds = seconds_of(step.budget.update, step.rates);
  for (const BudgetRow& row : step.budget.rows) seconds += seconds_of(row, step.rates);
  return seconds;
}

// The largest power of two of samples that leaves room.
Budget largest_step(const std::string& module, const CardRow& card, const Network& network,
                    const Model& model) {
  const double memory = static_cast<double>(kind_of(card).memory);
  for (int batch = card.measured ? network.measured_batch : network.most; batch > 0; batch /= 2) {
    const auto budget = count_step(module, {card.major, card.minor, memory}, model, batch,
                                   card.precision, network.adam);
    if (budget) return *budget;
  }
  throw UserError(card.name,
                  format("has no room for one sample of %s. Take a larger card.", network.name));
}

void print_row(const BudgetRow& row, const Rates& rates) {
  std::printf("| %s | %d | %.0f + %.0f | %.2f + %.2f | %.3f + %.3f | %.3f | %s |\n",
              row.name.c_str(), row.times, row.forward.operations, row.backward.operations,
              1e-9 * row.forward.flops, 1e-9 * row.backward.flops, 1e-9 * row.forward.bytes,
              1e-9 * row.backward.bytes, 1e3 * seconds_of(row, rates), limit_of(row, rates));
}

void print_layers(const Network& network, const Step& step) {
  std::printf("\n### %s on %s: %d samples in %s, %.1f GB of memory\n\n", network.title,
              step.card->name, step.budget.batch, to_string(step.card->precision).c_str(),
              1e-9 * static_cast<double>(step.budget.peak));
  std::puts(
      "| layers | times | launches | GFLOP | GB | ms | limit |\n|---|---|---|---|---|---|---|");
  for (const BudgetRow& row : step.budget.rows) print_row(row, step.rates);
  print_row(step.budget.update, step.rates);
}

void print_summary(const Network& network, const std::vector<Step>& steps) {
  std::printf(
      "\n## %s\n\n| card | samples | launches | launching ms | TFLOP | flops alone ms | GB | bytes "
      "alone ms | step ms | %s/s | of %s's %.0f |\n|---|---|---|---|---|---|---|---|---|---|---|\n",
      network.title, network.unit, network.whose, network.peer);
  for (const Step& step : steps) {
    const BudgetRow sum = sum_of(step.budget);
    const double launches = sum.forward.operations + sum.backward.operations;
    const double flops = sum.forward.flops + sum.backward.flops;
    const double bytes = sum.forward.bytes + sum.backward.bytes;
    const double seconds = step_seconds(step);
    const double speed = step.budget.batch * static_cast<double>(network.units) / seconds;
    std::printf("| %s, %s | %d | %.0f | %.2f | %.2f | %.2f | %.2f | %.2f | %.2f | %.0f | %.2f |\n",
                step.card->name, to_string(step.card->precision).c_str(), step.budget.batch,
                launches, 1e3 * launches * step.rates.launch_latency, 1e-12 * flops,
                1e3 * flops / step.rates.flops, 1e-9 * bytes, 1e3 * bytes / step.rates.bandwidth,
                1e3 * seconds, speed, speed / network.peer);
    if (step.card->measured && network.measured > 0) {
      std::printf("\nMeasured on the %s with these samples: %.0f %s/s, %.2f of the budget's.\n",
                  step.card->name, network.measured, network.unit, network.measured / speed);
    }
  }
}

void write_raw(std::FILE* file, const Network& network, const std::vector<Step>& steps) {
  for (const Step& step : steps) {
    const BudgetRow sum = sum_of(step.budget);
    std::fprintf(file,
                 "{\"model\": \"%s\", \"card\": \"%s\", \"samples\": %d, \"launches\": %.0f, "
                 "\"flops\": %.8g, \"bytes\": %.8g, \"seconds\": %.8g}\n",
                 network.name, step.card->name, step.budget.batch,
                 sum.forward.operations + sum.backward.operations,
                 sum.forward.flops + sum.backward.flops, sum.forward.bytes + sum.backward.bytes,
                 step_seconds(step));
  }
}

void run(const std::string& raw, const std::string& module, bool smallest) {
  use_cuda_module(module);
  std::FILE* const file = std::fopen(raw.c_str(), "w");
  if (file == nullptr) throw UserError(raw, "cannot be written. Check the path.");
  std::vector<Network> networks{kGpt2, kResnet50};
  if (smallest) {
    networks[0].sample = {16};
    networks[0].classes = 257;
    networks[1].sample = {32, 32, 3};
    for (Network& network : networks)
      network.most = network.measured_batch = 2, network.measured = 0;
  }
  std::vector<std::vector<Step>> all;
  for (const Network& network : networks) {
    std::vector<Step>& steps = all.emplace_back();
    const Model model = make_model(network.name, network.sample, network.classes);
    for (const CardRow& card : kCards) {
      if (smallest && card.precision == Precision::bf16 && card.major < 9) continue;
      if (smallest && card.measured) continue;
      const DeviceKind kind = kind_of(card);
      steps.push_back({&card, rates_of(kind, card.precision, kLaunchLatency),
                       largest_step(module, card, network, model)});
    }
    print_summary(network, steps);
    write_raw(file, network, steps);
  }
  std::puts("\n## Layer by layer\n\nForward + backward.");
  for (std::size_t n = 0; n < networks.size(); ++n) {
    for (const Step& step : all[n]) {
      if (!step.card->measured) print_layers(networks[n], step);
    }
  }
  std::fclose(file);
}

}  // namespace
}  // namespace hetpipe::bench

int main(int argc, char** argv) {
  const bool smallest = hetpipe::bench::take_smallest(argc, argv);
  if (argc != 3) {
    std::fputs("gpu_budget [--smallest] RAW.json MODULE\n", stderr);
    return 2;
  }
  try {
    hetpipe::bench::run(argv[1], argv[2], smallest);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
  return 0;
}
