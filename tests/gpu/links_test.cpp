// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/cuda_loader.h"
#include "runtime/model/zoo.h"
#include "runtime/transport/nccl_module.h"
#include "tests/end-to-end/device_cases.h"

// Whole trainings whose stages speak by NCCL, on the doubles of both: no rank does anything that
// waits for its whole GPU once a link is open there, or the double refuses it, and what was done
// beforehand leaves no trace.
namespace hetpipe {
namespace links_test {

using testing::HasSubstr;
using testing::Not;

// Before either is looked for.
const bool doubles_are_chosen = [] {
  use_cuda_module(HETPIPE_CUDA_MODULE);
  use_nccl_module(HETPIPE_CUDA_MODULE);
  return true;
}();

int ask(const char* what) {
  void* const module = dlopen(HETPIPE_CUDA_MODULE, RTLD_NOW | RTLD_NOLOAD);
  const auto function = reinterpret_cast<int (*)()>(dlsym(module, what));
  return function == nullptr ? -1 : function();
}

std::vector<DeviceCase> cases() {
  std::vector<DeviceCase> chosen;
  for (DeviceCase& of : device_cases()) {
    // What newest weights are depends on the clock; replicas of one stage have one GPU.
    const std::string name = of.name;
    if (name != "hosted" && name != "data-parallel") chosen.push_back(std::move(of));
  }
  return chosen;
}

class Links : public testing::TestWithParam<DeviceCase> {};

TEST_P(Links, AreOpenedByRanksThatAreWarmAndUntouched) {
  Training training = GetParam().training;
  training.device = "cuda";
  training.precision = Precision::fp32;
  const Model model = make_model(training.model, training.sample, training.classes);
  training.transport_path = "staged";
  const Trained staged = Bench(training).train();
  training.transport_path = "nccl";
  const int links = ask("hetpipe_double_links"), transfers = ask("hetpipe_double_transfers");
  const Bench bench(training);
  const Trained linked = bench.train();
  EXPECT_THAT(linked.said, HasSubstr("  nccl  "));
  EXPECT_THAT(staged.said, Not(HasSubstr("  nccl  ")));
  EXPECT_GT(ask("hetpipe_double_links"), links);
  EXPECT_GT(ask("hetpipe_double_transfers"), transfers);
  EXPECT_EQ(ask("hetpipe_double_link_blocks"), kNcclBlocks);
  expect_same(linked, staged, model);
}

INSTANTIATE_TEST_SUITE_P(Systems, Links, testing::ValuesIn(cases()), name_of_case);

}  // namespace links_test
}  // namespace hetpipe
