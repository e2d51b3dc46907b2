// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "launch/checkpoint/tensor_file.h"
#include "tests/end-to-end/training.h"

// What PyTorch's load_state_dict(strict=True) asks of an exported checkpoint, of one that a
// training wrote: every name that a module has, and no other.
namespace hetpipe {
namespace export_test {

TEST(Export, BatchNormHasTheNamesOfPyTorch) {
  Training training{.model = "lenet-bn", .samples = 60, .workers = {{8, {4, 9}}, {6, {}}}};
  training.in_flight = 2;
  const Trained trained = Bench(training).train();
  const Checkpoint& checkpoint = trained.checkpoints.at(trained.end());
  std::set<std::string> names;
  for (const ExportTensor& tensor : torch_tensors(checkpoint, ExportSlots::no)) {
    EXPECT_TRUE(names.insert(tensor.name).second) << tensor.name;
    if (!tensor.name.ends_with("num_batches_tracked")) continue;
    EXPECT_TRUE(tensor.shape.empty() && tensor.values.empty());
    EXPECT_EQ(tensor.integer, checkpoint.worker_minibatches);
  }
  std::set<std::string> expected{"conv1.weight", "conv2.weight", "linear1.weight", "linear2.weight",
                                 "linear2.bias"};
  for (const char* norm : {"bn1", "bn2", "bn3"}) {  // of torch.nn.BatchNorm2d and BatchNorm1d
    for (const char* of :
         {"weight", "bias", "running_mean", "running_var", "num_batches_tracked"}) {
      expected.insert(std::string(norm) + "." + of);
    }
  }
  EXPECT_EQ(names, expected);
}

}  // namespace export_test
}  // namespace hetpipe
