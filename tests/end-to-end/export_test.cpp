// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "base/file.h"
#include "base/text.h"
#include "launch/checkpoint/tensor_file.h"
#include "tests/end-to-end/training.h"

// What PyTorch's load_state_dict(strict=True) asks of an exported checkpoint, of one that a
// training wrote: every name that a module has, with its shape, and no other. The names and shapes
// are those that PyTorch 2.15 gives for the modules of docs/example/pytorch_zoo.py (--names).
namespace hetpipe {
namespace export_test {

struct ZooCase {
  const char* model;
  Shape sample;
  int classes;
};

void PrintTo(const ZooCase& zoo, std::ostream* out) { *out << zoo.model; }

class ExportedNames : public testing::TestWithParam<ZooCase> {};

std::set<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::set<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.insert(line);
  return lines;
}

TEST_P(ExportedNames, AreThoseOfAModuleOfPyTorch) {
  Training training{.model = GetParam().model,
                    .sample = GetParam().sample,
                    .classes = GetParam().classes,
                    .samples = 4,
                    .device = "cpu",
                    .workers = {{2, {}}},
                    .optimizer = {.name = "sgd"}};
  const Trained trained = Bench(training).train();
  const Checkpoint& checkpoint = trained.checkpoints.at(trained.end());
  std::set<std::string> names;
  for (const ExportTensor& tensor : torch_tensors(checkpoint, ExportSlots::no)) {
    std::vector<std::string> sides;
    for (const std::int64_t side : tensor.shape) sides.push_back(std::to_string(side));
    EXPECT_TRUE(names.insert(tensor.name + " [" + join(sides, ", ") + "]").second) << tensor.name;
    if (tensor.name.ends_with("num_batches_tracked")) {
      EXPECT_EQ(tensor.integer, checkpoint.worker_minibatches);
    } else {
      std::int64_t values = 1;
      for (const std::int64_t side : tensor.shape) values *= side;
      EXPECT_EQ(static_cast<std::int64_t>(tensor.values.size()), values) << tensor.name;
    }
  }
  const std::string golden =
      std::string(HETPIPE_SOURCE_DIR "/tests/golden/state-dict/") + GetParam().model + ".txt";
  EXPECT_EQ(names, lines_of(read_file(golden)));
}

INSTANTIATE_TEST_SUITE_P(Zoo, ExportedNames,
                         testing::Values(ZooCase{"lenet-bn", {28, 28, 1}, 10},
                                         ZooCase{"resnet-18", {28, 28, 1}, 10},
                                         ZooCase{"resnet-50", {28, 28, 1}, 10},
                                         ZooCase{"gpt2-tiny", {64}, 65},
                                         ZooCase{"bert-tiny", {64}, 66}));

}  // namespace export_test
}  // namespace hetpipe
