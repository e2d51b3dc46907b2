// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "base/error.h"
#include "kernels/buffer.h"
#include "kernels/cpu/memory_pool.h"
#include "kernels/devices.h"

namespace hetpipe {
namespace kernels_memory_test {

TEST(MemoryAccount, RefusesWhatIsOverBudgetWithALedger) {
  MemoryAccount account;
  account.set_budget(1000, "n0:1");
  account.take(600, MemoryKind::weights);
  account.take(300, MemoryKind::activations);
  try {
    account.take(101, MemoryKind::workspace);
    FAIL() << "101 bytes were given where 100 are left";
  } catch (const OutOfMemory& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("n0:1"));
    EXPECT_THAT(e.what(), testing::HasSubstr("workspace"));
    EXPECT_THAT(e.what(), testing::HasSubstr(account.ledger()));
  }
  EXPECT_EQ(account.used(), 900u);
  account.take(100, MemoryKind::workspace);
  EXPECT_EQ(account.used(MemoryKind::workspace), 100u);
  account.give_back(600, MemoryKind::weights);
  EXPECT_EQ(account.used(), 400u);
  EXPECT_EQ(account.peak(), 1000u);
  EXPECT_THAT(account.ledger(), testing::Not(testing::HasSubstr("weights")));
  EXPECT_THAT(account.ledger(), testing::HasSubstr("activations"));
}

TEST(MemoryAccount, WithoutABudgetOnlyCounts) {
  MemoryAccount account;
  account.take(std::size_t{1} << 50, MemoryKind::versions);
  EXPECT_EQ(account.used(), std::size_t{1} << 50);
}

TEST(MemoryAccountDeathTest, MoreGivenBackThanTakenIsABug) {
  EXPECT_DEATH(
      {
        MemoryAccount account;
        account.take(10, MemoryKind::weights);
        account.give_back(11, MemoryKind::weights);
      },
      "internal error");
}

class DeviceMemory : public testing::TestWithParam<const char*> {
 protected:
  std::unique_ptr<Device> device_ = make_device(GetParam(), 1);
  std::unique_ptr<Stream> stream_ = device_->make_stream();
};

TEST_P(DeviceMemory, IsAlignedCountedAndGivenBack) {
  {
    std::vector<Buffer> buffers;
    for (std::size_t bytes : {1u, 4u, 63u, 64u, 65u, 4000u, 100001u}) {
      buffers.emplace_back(*device_, *stream_, bytes, MemoryKind::activations);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffers.back().data()) % 64, 0u);
      std::memset(buffers.back().data(), 0x5a, bytes);
    }
    EXPECT_EQ(device_->memory().used(MemoryKind::activations), 104198u);
  }
  EXPECT_EQ(device_->memory().used(), 0u);
  EXPECT_EQ(device_->memory().peak(), 104198u);
}

TEST_P(DeviceMemory, BudgetHolds) {
  device_->memory().set_budget(1 << 20, "n0:0");
  const Buffer first(*device_, *stream_, 1 << 19, MemoryKind::weights);
  EXPECT_THROW(Buffer(*device_, *stream_, (1 << 19) + 1, MemoryKind::weights), OutOfMemory);
  EXPECT_EQ(device_->memory().used(), std::size_t{1} << 19);
  const Buffer second(*device_, *stream_, 1 << 19, MemoryKind::weights);
  EXPECT_EQ(device_->memory().used(), std::size_t{1} << 20);
}

TEST_P(DeviceMemory, MoreThanTheMachineHasIsOutOfMemory) {
  EXPECT_THROW(device_->allocate(*stream_, std::size_t{1} << 60, MemoryKind::weights), OutOfMemory);
  EXPECT_EQ(device_->memory().used(), 0u);
}

TEST_P(DeviceMemory, CopiesAndEventsAreDoneAtOnce) {
  const std::vector<float> host = {1, 2, 3};
  const Buffer buffer(*device_, *stream_, sizeof(float) * 3, MemoryKind::messages);
  device_->copy(*stream_, buffer.data(), reinterpret_cast<const std::byte*>(host.data()),
                buffer.bytes());
  EXPECT_TRUE(stream_->record()->done());
  EXPECT_EQ(std::vector<float>(buffer.as<float>(), buffer.as<float>() + 3), host);
}

INSTANTIATE_TEST_SUITE_P(Devices, DeviceMemory, testing::Values("cpu", "reference"));

TEST(MemoryPool, ClassesWasteAtMostAnEighth) {
  for (std::size_t bytes = 1; bytes < 100000; bytes += 7) {
    const std::size_t size = MemoryPool::class_of(bytes);
    EXPECT_GE(size, bytes);
    EXPECT_EQ(size % 64, 0u);
    EXPECT_LE(size - bytes, std::max<std::size_t>(64, bytes / 8)) << bytes;
    EXPECT_EQ(MemoryPool::class_of(size), size);
  }
}

TEST(MemoryPool, GivesAReturnedBlockOutAgain) {
  MemoryPool pool;
  std::byte* first = pool.take(100000);
  pool.give_back(first, 100000);
  std::byte* again = pool.take(100001);  // the same class
  EXPECT_EQ(again, first);
  pool.give_back(again, 100001);
}

}  // namespace kernels_memory_test
}  // namespace hetpipe
