// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "base/time.h"
#include "kernels/buffer.h"
#include "kernels/host_device.h"
#include "tests/gpu/cuda_test.h"
#include "tests/unit/kernels/layer_run.h"

// The CUDA device as its callers see it: memory, streams, events, refusals.
namespace hetpipe {
namespace gpu_device_test {

using testing::HasSubstr;

class CudaDeviceTest : public testing::Test {
 protected:
  std::unique_ptr<Device> device_ = test::cuda_device(Precision::fp32);
  std::unique_ptr<Stream> stream_ = device_->make_stream();
};

using CudaPeers = CudaDeviceTest;

TEST_F(CudaDeviceTest, SaysWhatItIs) {
  EXPECT_EQ(device_->kind(), "cuda");
  EXPECT_FALSE(device_->host_memory());
  EXPECT_EQ(device_->precision(), Precision::fp32);
  EXPECT_THAT(device_->description(), HasSubstr(test::last_gpu().name));
  EXPECT_THAT(device_->description(), HasSubstr(test::last_gpu().uuid));
  EXPECT_THAT(known_devices().back(), HasSubstr("GPU"));
}

TEST_F(CudaDeviceTest, MemoryIsCountedAndGivenBack) {
  {
    const Buffer buffer(*device_, *stream_, 12345, MemoryKind::weights);
    EXPECT_EQ(device_->memory().used(MemoryKind::weights), 12345u);
  }
  stream_->synchronize();
  EXPECT_EQ(device_->memory().used(), 0u);
  EXPECT_EQ(device_->memory().peak(), 12345u);
}

TEST_F(CudaDeviceTest, WhatDoesNotFitIsReportedWithTheLedger) {
  const Buffer there(*device_, *stream_, 4096, MemoryKind::gradients);
  const std::size_t more = test::last_gpu().memory + (std::size_t{1} << 30);
  try {
    const Buffer buffer(*device_, *stream_, more, MemoryKind::activations);
    FAIL() << "there was room";
  } catch (const OutOfMemory& e) {
    EXPECT_THAT(e.what(), HasSubstr(test::last_gpu().name));
    EXPECT_THAT(e.what(), HasSubstr("activations"));
    EXPECT_THAT(e.what(), HasSubstr("gradients"));
  }
  EXPECT_EQ(device_->memory().used(), 4096u);
  // And it continues.
  const Buffer after(*device_, *stream_, 4096, MemoryKind::activations);
  stream_->synchronize();
}

TEST_F(CudaDeviceTest, ABudgetIsHeldInFrontOfTheCard) {
  device_->memory().set_budget(10000, "half a card");
  EXPECT_THROW(Buffer(*device_, *stream_, 20000, MemoryKind::weights), OutOfMemory);
  EXPECT_EQ(device_->memory().used(), 0u);
}

TEST_F(CudaDeviceTest, CopiesKeepTheirOrderAndHostMemoryThatIsNotLockedIsReadAtOnce) {
  constexpr std::size_t kBytes = 1 << 16;
  const Buffer buffer(*device_, *stream_, kBytes, MemoryKind::messages);
  std::vector<std::byte> values(kBytes, std::byte{1}), back(kBytes);
  device_->copy(*stream_, buffer.data(), values.data(), kBytes);
  std::byte* const locked = device_->allocate_host(kBytes);
  device_->copy(*stream_, locked, buffer.data(), kBytes);
  device_->copy(*stream_, buffer.data(), locked, kBytes);
  device_->copy(*stream_, back.data(), buffer.data(), kBytes);
  device_->copy(*stream_, back.data(), buffer.data(), 0);
  stream_->synchronize();
  EXPECT_EQ(back, values);
  device_->release_host(locked, kBytes);
}

TEST_F(CudaDeviceTest, AStreamWaitsForAnothersEvent) {
  const std::unique_ptr<Stream> other = device_->make_stream();
  constexpr std::int64_t kCount = 1 << 18;
  const Buffer x(*device_, *stream_, kCount * sizeof(float), MemoryKind::weights);
  for (int i = 0; i < 50; ++i)
    device_->fill(*stream_, x.as<float>(), static_cast<float>(i), kCount);
  const std::unique_ptr<Event> filled = stream_->record();
  other->wait(*filled);
  std::vector<float> back(kCount);
  device_->copy(*other, activations(back.data()), activations(x.as<float>()),
                back.size() * sizeof(float));
  other->synchronize();
  EXPECT_TRUE(filled->done());
  EXPECT_EQ(back, std::vector<float>(kCount, 49.0f));
}

TEST_F(CudaDeviceTest, EventsKnowByTheHostsClockWhenTheyHappened) {
  constexpr std::int64_t kSlack = 5'000'000;  // ns: two clocks
  constexpr std::int64_t kCount = 1 << 16;
  const Buffer x(*device_, *stream_, kCount * sizeof(float), MemoryKind::weights);
  const std::int64_t start = now_ns();
  const std::unique_ptr<Event> before = stream_->record_time();
  device_->fill(*stream_, x.as<float>(), 1, kCount);
  const std::unique_ptr<Event> after = stream_->record_time();
  stream_->synchronize();
  const std::int64_t end = now_ns();
  EXPECT_GE(before->done_ns(), start - kSlack);
  EXPECT_GT(after->done_ns(), before->done_ns());
  EXPECT_LE(after->done_ns(), end + kSlack);
}

// Whose thread has never chosen a GPU.
TEST_F(CudaDeviceTest, AnyThreadMayUseIt) {
  const test::LayerCase c{Convolution{8, 3, 1, 1}, {{2, 6, 6, 8}}};
  const test::LayerValues values = make_values(c);
  const test::LayerResult here = run_layer(*device_, c, values);
  test::LayerResult there;
  std::thread([&] { there = run_layer(*device_, c, values); }).join();
  EXPECT_EQ(there.output, here.output);
  EXPECT_EQ(there.parameter_gradients, here.parameter_gradients);
}

TEST_F(CudaDeviceTest, DevicesOfOneProcessDoNotDisturbOneAnother) {
  const test::LayerCase c{Linear{33}, {{7, 129}}};
  const test::LayerValues values = make_values(c);
  const test::LayerResult alone = run_layer(*device_, c, values);
  std::vector<std::thread> threads;
  std::vector<test::LayerResult> results(4);
  for (std::size_t i = 0; i < results.size(); ++i) {
    threads.emplace_back([&, i] {
      const std::size_t gpus = load_cuda().module->gpus().size();
      const auto own = make_device(
          "cuda", 1,
          {.index = static_cast<int>(i % gpus), .precision = Precision::fp32, .plan_cache = {}});
      for (int round = 0; round < 3; ++round) results[i] = run_layer(*own, c, values);
    });
  }
  for (std::thread& thread : threads) thread.join();
  // Devices choose algorithms by the clock, each for itself: the same numbers, maybe not bits.
  for (const test::LayerResult& result : results) {
    ASSERT_EQ(result.output.size(), alone.output.size());
    for (std::size_t i = 0; i < alone.output.size(); ++i) {
      EXPECT_NEAR(result.output[i], alone.output[i], 1e-4);
    }
  }
}

// In a process of this test alone too, in which the double's first card is an old one.
TEST(CudaCards, WithoutCodeAreLeftOut) {
  if (std::getenv("HETPIPE_DOUBLE_OLD") == nullptr) GTEST_SKIP() << "needs the double's old card";
  const VisibleGpus seen = visible_gpus();
  ASSERT_EQ(seen.gpus.size(), 1u);
  EXPECT_EQ(seen.gpus[0].index, 1);
  ASSERT_EQ(seen.left_out.size(), 1u);
  EXPECT_THAT(seen.left_out[0], HasSubstr("double 0 has compute capability 6.1"));
  EXPECT_THAT(seen.left_out[0], HasSubstr("7.5, 8.0, 8.6, 8.9, 9.0, 10.0, 12.0 or newer"));
  EXPECT_THAT(seen.left_out[0], HasSubstr("HETPIPE_CUDA_ARCHITECTURES=61"));
  EXPECT_THAT(seen.left_out[0], HasSubstr("CUDA Toolkit 12"));
  EXPECT_THAT(seen.left_out[0], HasSubstr("launch/bundle --cuda 12"));
  EXPECT_THAT(known_devices().back(), HasSubstr("left out: "));
  EXPECT_THAT(known_devices().back(), testing::EndsWith("; 1 GPUs"));
}

// Ranks of a machine with eight GPUs hold eight contexts, not sixty-four. Asked of the double, in a
// process of this test alone (tests/gpu/CMakeLists.txt).
TEST(CudaContexts, AreMadeOnTheOwnGpuAlone) {
  const char* const module = std::getenv("HETPIPE_DOUBLE_ALONE");
  if (module == nullptr) GTEST_SKIP() << "for a process of its own, with the double";
  const auto contexts = reinterpret_cast<unsigned (*)()>(
      dlsym(dlopen(module, RTLD_NOW | RTLD_NOLOAD), "hetpipe_double_contexts"));
  const GpuInfo gpu = test::last_gpu();
  ASSERT_GT(gpu.index, 0);
  ASSERT_FALSE(visible_gpus().gpus.empty());
  EXPECT_EQ(contexts(), 0u);  // looking makes none
  const test::LayerCase c{Linear{33}, {{7, 129}}};
  const test::LayerValues values = make_values(c);
  const auto work = [&] {
    const auto device = make_device(
        "cuda", 1, {.index = gpu.index, .precision = Precision::fp32, .plan_cache = {}});
    run_layer(*device, c, values);
    const auto peers = make_peer_memory(*device);
    peers->share(4096);
  };
  work();
  std::thread(work).join();
  EXPECT_EQ(contexts(), 1u << gpu.index);
}

// And in the mode in which a GPU is one process's alone, each rank finds its own: those that only
// look hold none. In processes that the test makes before it has used a GPU itself.
TEST(CudaContexts, EightProcessesHoldOneEachOfEightExclusiveGpus) {
  if (std::getenv("HETPIPE_DOUBLE_EXCLUSIVE") == nullptr) GTEST_SKIP() << "needs the double's mode";
  constexpr int kRanks = 8;
  ASSERT_EQ(visible_gpus().gpus.size(), std::size_t{kRanks});
  int works[2], ends[2];  // a byte for each that works; closed when all may end
  ASSERT_EQ(pipe(works), 0);
  ASSERT_EQ(pipe(ends), 0);
  const auto use = [&](int index) {
    const auto device =
        make_device("cuda", 1, {.index = index, .precision = Precision::fp32, .plan_cache = {}});
    const test::LayerCase c{Linear{3}, {{2, 5}}};
    run_layer(*device, c, make_values(c));
    char byte = 0;
    if (write(works[1], &byte, 1) != 1) throw SystemError("nobody listens");
    return read(ends[0], &byte, 1) == 0;
  };
  std::vector<pid_t> ranks;
  for (int r = 0; r < kRanks; ++r) {
    const pid_t rank = fork();
    ASSERT_GE(rank, 0);
    if (rank == 0) {
      close(ends[1]);
      bool fine = false;
      try {
        fine = visible_gpus().gpus.size() == std::size_t{kRanks} && use(r);
      } catch (const std::exception& e) {
        std::fprintf(stderr, "rank %d: %s\n", r, e.what());
      }
      _exit(fine ? 0 : 1);
    }
    ranks.push_back(rank);
  }
  close(works[1]);
  char byte = 0;
  for (int r = 0; r < kRanks; ++r)
    ASSERT_EQ(read(works[0], &byte, 1), 1) << "not all began to work";
  // All hold theirs, and whoever comes now gets none, with CUDA's reason.
  try {
    make_device("cuda", 1, {.index = 5, .precision = Precision::fp32, .plan_cache = {}});
    ADD_FAILURE() << "two processes on one exclusive GPU";
  } catch (const SystemError& e) {
    EXPECT_THAT(e.what(), HasSubstr("busy or unavailable"));
  }
  EXPECT_EQ(visible_gpus().gpus.size(), std::size_t{kRanks});
  close(ends[1]);
  for (const pid_t rank : ranks) {
    int status = 0;
    ASSERT_EQ(waitpid(rank, &status, 0), rank);
    EXPECT_EQ(status, 0);
  }
}

// A choice that was kept is checked as it was found, with an address for the bias: measured anew it
// would have another time in the file.
TEST(CudaPlans, AKeptProductWithABiasIsNotMeasuredAnew) {
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / ("hetpipe_kept_" + std::to_string(getpid()));
  const std::string file = folder / "plans.jsonl";
  const test::LayerCase c{Linear{24}, {{8, 32}}};
  const test::LayerValues values = make_values(c);
  const auto run = [&] {
    const auto device = make_device(
        "cuda", 1,
        {.index = test::last_gpu().index, .precision = Precision::fp32, .plan_cache = file});
    run_layer(*device, c, values);
    return read_file(file);
  };
  const std::string kept = run();
  EXPECT_THAT(kept, HasSubstr("epilogue bias"));
  EXPECT_EQ(run(), kept);
  std::filesystem::remove_all(folder);
}

// A path that cannot be leaves nothing to the kernels that come after it: neither a handle that no
// process can open nor, in a process of this test alone, memory that is not shared at all.
TEST_F(CudaPeers, AFailedTrialIsNotReportedByTheNextLaunch) {
  const auto peers = make_peer_memory(*device_);
  EXPECT_THROW(peers->open(std::string(64, 'x')), SystemError);
  if (std::getenv("HETPIPE_DOUBLE_NO_IPC") != nullptr) {
    EXPECT_THROW(peers->share(4096), SystemError);
  }
  const Buffer x(*device_, *stream_, 4096, MemoryKind::weights);
  device_->fill(*stream_, x.as<float>(), 1, 1024);
  stream_->synchronize();
}

// The driver names parts of a card (MIG) by UUIDs of their own, which set them apart.
TEST(CudaDevice, EachHasAUuidOfItsOwn) {
  std::set<std::string> uuids;
  for (const GpuInfo& gpu : visible_gpus().gpus) {
    const bool part = gpu.name.find(" MIG ") != std::string::npos;
    EXPECT_TRUE(gpu.uuid.starts_with(part ? "MIG-" : "GPU-")) << gpu.name << ": " << gpu.uuid;
    EXPECT_EQ(gpu.uuid.size(), std::string("GPU-00000000-0000-0000-0000-000000000000").size());
    EXPECT_TRUE(uuids.insert(gpu.uuid).second) << gpu.uuid;
  }
  EXPECT_FALSE(uuids.empty());
}

TEST(CudaDevice, WhatIsNotThereIsRefused) {
  const int beyond = test::last_gpu().index + 1;
  EXPECT_THROW(make_device("cuda", 1, {.index = beyond, .precision = {}, .plan_cache = {}}),
               UserError);
  EXPECT_THROW(make_device("cuda", 1, {.index = -1, .precision = {}, .plan_cache = {}}), UserError);
  const auto usual = make_device("cuda", 1);
  EXPECT_EQ(usual->precision(), usual_precision(load_cuda().module->gpus().front()));
}

}  // namespace gpu_device_test
}  // namespace hetpipe
