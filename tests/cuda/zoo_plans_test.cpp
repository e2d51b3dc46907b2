// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <set>

#include "base/file.h"
#include "base/text.h"
#include "kernels/cuda/dnn/attention.h"
#include "runtime/model/zoo.h"
#include "tests/cuda/zoo_graphs.h"

namespace hetpipe::cuda {
namespace zoo_plans_test {

constexpr std::size_t kMostWorkspace = std::size_t{1} << 30;

// Another card's description may be named in HETPIPE_CARD.
std::unique_ptr<Context> described_card(bool deterministic = true) {
  PlanOptions options;
  options.deterministic = deterministic;
  options.workspace = kMostWorkspace;
  const char* const other = std::getenv("HETPIPE_CARD");
  return Context::described(read_file(other != nullptr ? other : HETPIPE_H200), options);
}

std::string words(std::int64_t batch, Precision precision) {
  return format("batch %lld, %s", static_cast<long long>(batch), to_string(precision).c_str());
}

// The table where it is asked for (HETPIPE_TABLES=1), one line otherwise.
void expect_planned(const ZooPlanner& planner, const std::string& what) {
  EXPECT_FALSE(planner.planned().empty()) << what;
  EXPECT_TRUE(planner.failures().empty())
      << what << ": " << planner.failures().size() << " graphs without a plan, the first:\n"
      << planner.failures().front();
  EXPECT_LE(planner.largest_workspace(), kMostWorkspace) << what;
  std::printf("%s: %zu distinct graphs, largest workspace %s\n", what.c_str(),
              planner.planned().size(),
              format_bytes(static_cast<double>(planner.largest_workspace())).c_str());
  if (std::getenv("HETPIPE_TABLES") != nullptr) std::printf("%s\n", planner.table().c_str());
}

const std::set<std::string> kAll;

void plan_convolutions(std::int64_t batch, Precision precision,
                       const std::set<std::string>& names) {
  const std::unique_ptr<Context> context = described_card();
  ZooPlanner planner(*context, batch, precision);
  for (const Model& model : zoo_models())
    if (names.empty() || names.count(model.name()) != 0) planner.convolutions(model);
  expect_planned(planner, "convolutions, " + words(batch, precision));
}

TEST(ZooPlans, EveryConvolution) { plan_convolutions(32, Precision::bf16, kAll); }
TEST(ZooPlans, ConvolutionsOfOtherBatchesAndInOtherNumbers) {
  const std::set<std::string> some = {"lenet", "vgg-19", "resnet-50", "inception-v3"};
  for (const std::int64_t batch : {1, 256}) plan_convolutions(batch, Precision::bf16, some);
  for (const Precision precision : {Precision::fp16, Precision::tf32, Precision::fp32})
    plan_convolutions(32, precision, some);
}
TEST(ZooPlans, DISABLED_EveryConvolutionOfEveryBatchInEveryNumber) {
  for (const std::int64_t batch : {1, 2, 8, 17, 32, 64, 128, 256})
    for (const Precision precision :
         {Precision::bf16, Precision::fp16, Precision::tf32, Precision::fp32})
      plan_convolutions(batch, precision, kAll);
}

void plan_attentions(std::int64_t batch, Precision precision, bool deterministic) {
  const std::unique_ptr<Context> context = described_card(deterministic);
  ZooPlanner planner(*context, batch, precision);
  for (const Model& model : zoo_models()) planner.attentions(model);
  expect_planned(planner, std::string("attention, ") +
                              (deterministic ? "deterministic, " : "in any order, ") +
                              words(batch, precision));
}

TEST(ZooPlans, EveryAttention) {
  for (const Precision precision : {Precision::bf16, Precision::fp16}) {
    plan_attentions(8, precision, true);
    plan_attentions(32, precision, false);
  }
}

// A card of 2018, as real pools have them: no bf16 and no fused attention, but fp16 on tensor
// cores.
TEST(ZooPlans, ConvolutionsForAnOlderCard) {
  const std::unique_ptr<Context> context =
      Context::described(read_file(HETPIPE_TITAN_RTX), {.workspace = kMostWorkspace});
  ZooPlanner planner(*context, 32, Precision::fp16);
  for (const Model& model : zoo_models()) planner.convolutions(model);
  expect_planned(planner, "convolutions on a TITAN RTX, " + words(32, Precision::fp16));

  ZooPlanner without(*context, 32, Precision::bf16);
  without.convolutions(make_model("resnet-8", {32, 32, 3}, 10));
  EXPECT_FALSE(without.failures().empty());
  AttentionPlans attention(*context, {.heads = 12}, {8, 128, 3 * 768}, Precision::fp16);
  EXPECT_FALSE(attention.supported());
}

}  // namespace zoo_plans_test
}  // namespace hetpipe::cuda
