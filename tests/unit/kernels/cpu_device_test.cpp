// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <omp.h>

#include <thread>

#include "base/error.h"
#include "kernels/devices.h"
#include "kernels/host_device.h"
#include "tests/unit/kernels/layer_run.h"

namespace hetpipe {
namespace cpu_device_test {

using test::LayerCase;
using test::LayerResult;
using test::LayerValues;

bool same_bits(const LayerResult& a, const LayerResult& b) {
  return a.output == b.output && a.evaluated == b.evaluated &&
         a.input_gradients == b.input_gradients && a.parameter_gradients == b.parameter_gradients &&
         a.statistics == b.statistics && a.correct == b.correct;
}

const std::vector<LayerCase>& cases() {
  static const std::vector<LayerCase> all = {{Convolution{32, 5, 1, 2}, {{8, 28, 28, 1}}},
                                             {Convolution{48, 3, 2, 1}, {{4, 15, 15, 20}}},
                                             {BatchNorm{}, {{8, 9, 9, 24}}},
                                             {Linear{200}, {{16, 300}}}};
  return all;
}

TEST(CpuDevice, IsTheSameInEveryBitFromRunToRun) {
  for (const LayerCase& c : cases()) {
    SCOPED_TRACE(to_string(c));
    const LayerValues values = make_values(c);
    const std::unique_ptr<Device> device = make_device("cpu", 1);
    const LayerResult first = run_layer(*device, c, values);
    EXPECT_TRUE(same_bits(run_layer(*device, c, values), first)) << "the same device";
    EXPECT_TRUE(same_bits(run_layer(*make_device("cpu", 1), c, values), first)) << "another";
  }
}

// Ranks as threads of one process, with different numbers of threads: what one asked for holds for
// it alone. The primitives of oneDNN are cached per process, so the order is varied.
TEST(CpuDevice, KeepsItsThreadCountBesideOtherThreads) {
  for (const LayerCase& c : cases()) {
    SCOPED_TRACE(to_string(c));
    const LayerValues values = make_values(c);
    const LayerResult alone = run_layer(*make_device("cpu", 1), c, values);
    const LayerResult two_alone = run_layer(*make_device("cpu", 2), c, values);
    bool same[4] = {};
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&, i] {
        const int count = i % 2 + 1;
        const std::unique_ptr<Device> device = make_device("cpu", count);
        same[i] = same_bits(run_layer(*device, c, values), count == 1 ? alone : two_alone);
      });
    }
    for (std::thread& t : threads) t.join();
    EXPECT_THAT(same, testing::Each(true));
  }
}

// The caller's own OpenMP setting is not the device's. Sums whose bits differ between one and two
// threads tell how many were used.
TEST(CpuDevice, UsesItsThreadCountWhateverTheCallers) {
  const int before = omp_get_max_threads();
  bool distinguishable = false;
  for (const LayerCase& c : cases()) {
    SCOPED_TRACE(to_string(c));
    const LayerValues values = make_values(c);
    const auto run = [&](int callers, int devices) {
      omp_set_num_threads(callers);
      return run_layer(*make_device("cpu", devices), c, values);
    };
    const LayerResult one = run(1, 1);
    const LayerResult two = run(2, 2);
    EXPECT_TRUE(same_bits(run(2, 1), one));
    EXPECT_TRUE(same_bits(run(1, 2), two));
    distinguishable |= !same_bits(one, two);
  }
  omp_set_num_threads(before);
  if (!distinguishable) GTEST_SKIP() << "one and two threads give the same bits on this processor";
}

TEST(CpuDevice, LeavesTheCallersThreadCountAlone) {
  const int before = omp_get_max_threads();
  omp_set_num_threads(3);
  const LayerCase& c = cases()[0];
  run_layer(*make_device("cpu", 1), c, make_values(c));
  EXPECT_EQ(omp_get_max_threads(), 3);
  omp_set_num_threads(before);
}

TEST(CpuDevice, CountsItsWorkspaceAndGivesItBack) {
  const std::unique_ptr<Device> device = make_device("cpu", 1);
  const LayerCase c{Convolution{64, 3, 1, 1}, {{2, 8, 8, 32}}};
  const LayerValues values = make_values(c);
  run_layer(*device, c, values);
  EXPECT_EQ(device->memory().used(), 0u);
  // The reordered weights are the least a layout of oneDNN's own needs.
  EXPECT_GE(device->memory().peak(), 64u * 32 * 9 * 4);
  device->memory().set_budget(1000, "n0:0");
  EXPECT_THROW(run_layer(*device, c, values), OutOfMemory);
  EXPECT_EQ(device->memory().used(), 0u);
}

// Split backward passes ask for the gradients one kind at a time.
TEST(EveryDevice, ComputesOnlyTheGradientsThatAreWanted) {
  for (const char* name : {"cpu", "reference"}) {
    const std::unique_ptr<Device> device = make_device(name, 1);
    const std::unique_ptr<Stream> stream = device->make_stream();
    for (const LayerCase& c : cases()) {
      SCOPED_TRACE(std::string(name) + ": " + to_string(c));
      const LayerValues values = make_values(c);
      const LayerResult wanted = run_layer(*device, c, values);
      const LayerShapes shapes = infer_shapes(c.spec, c.inputs);
      const std::unique_ptr<LayerKernel> kernel = device->make_kernel(c.spec, c.inputs, 0);
      const std::vector<const std::byte*> inputs = {activations(values.inputs[0].data())};
      const std::vector<const float*> parameters = {values.parameters[0].data(),
                                                    values.parameters[1].data()};
      std::vector<std::byte> stash(static_cast<std::size_t>(shapes.stash_bytes));
      LayerValues kept = values;
      std::vector<float*> statistics;
      for (auto& s : kept.statistics) statistics.push_back(s.data());
      std::vector<float> y(wanted.output.size());
      ForwardArguments f;
      f.inputs = inputs;
      f.parameters = parameters;
      f.statistics = statistics;
      f.output = activations(y.data());
      f.stash = stash.data();
      kernel->forward(*stream, f);
      BackwardArguments b;
      b.inputs = inputs;
      b.parameters = parameters;
      std::vector<float> dy = values.output_gradient;
      b.output_gradient = activations(dy.data());
      b.stash = stash.data();
      std::vector<float> dx(values.inputs[0].size()), dw(values.parameters[0].size());
      std::vector<float> db(values.parameters[1].size());
      std::byte* const only_dx[] = {activations(dx.data())};
      b.input_gradients = only_dx;
      kernel->backward(*stream, b);
      EXPECT_EQ(dx, wanted.input_gradients[0]);
      std::byte* const nothing[] = {nullptr};
      float* const only_dw[] = {dw.data(), nullptr};
      b.input_gradients = nothing;
      b.parameter_gradients = only_dw;
      kernel->backward(*stream, b);
      EXPECT_EQ(dw, wanted.parameter_gradients[0]);
      float* const only_db[] = {nullptr, db.data()};
      b.input_gradients = {};
      b.parameter_gradients = only_db;
      kernel->backward(*stream, b);
      EXPECT_EQ(db, wanted.parameter_gradients[1]);
    }
  }
}

TEST(Devices, AreMadeByName) {
  EXPECT_EQ(make_device("cpu", 1)->kind(), "cpu");
  EXPECT_THAT(make_device("cpu", 2)->description(),
              testing::MatchesRegex("CPU.*oneDNN.*2 threads"));
  EXPECT_EQ(make_device("reference", 1)->kind(), "reference");
  EXPECT_EQ(known_devices().size(), 4u);
  EXPECT_THROW(make_device("cpu", 0), UserError);
  if (choose_device().name == "cpu") {
    EXPECT_THROW(make_device("cuda", 1), SystemError);
  }
  try {
    make_device("cqu", 1);
    FAIL();
  } catch (const UserError& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("cpu"));
  }
}

TEST(Devices, RefuseShapesThatDoNotFit) {
  for (const char* name : {"cpu", "reference"}) {
    EXPECT_THROW(make_device(name, 1)->make_kernel(Linear{3}, {{1, 2, 2, 3}}, 0),
                 std::invalid_argument);
  }
}

}  // namespace cpu_device_test
}  // namespace hetpipe
