// SPDX-License-Identifier: Apache-2.0
#include "runtime/transport/host_pool.h"

#include <gtest/gtest.h>

#include "tests/unit/kernels/wrapped_device.h"

namespace hetpipe {
namespace host_pool_test {

class CountingDevice final : public test::WrappedDevice {
 public:
  std::byte* allocate_host(std::size_t bytes) override {
    ++made;
    there += bytes;
    return WrappedDevice::allocate_host(bytes);
  }
  void release_host(std::byte* memory, std::size_t bytes) noexcept override {
    there -= bytes;
    WrappedDevice::release_host(memory, bytes);
  }
  int made = 0;
  std::size_t there = 0;
};

TEST(HostPool, WhatIsReservedIsNotMadeLater) {
  CountingDevice device;
  {
    HostPool pool(device);
    pool.reserve(10000, 2);
    EXPECT_EQ(device.made, 2);
    pool.reserve(10000, 1);  // is there
    EXPECT_EQ(device.made, 2);
    EXPECT_EQ(pool.lent(), 0u);
    std::byte* const one = pool.take(10000);
    std::byte* const other = pool.take(100);  // in a larger block
    EXPECT_NE(one, other);
    EXPECT_EQ(device.made, 2);
    EXPECT_EQ(pool.lent(), std::size_t{12288 + 4096});
    std::byte* const more = pool.take(100);
    EXPECT_EQ(device.made, 3);
    pool.give_back(other, 100);
    EXPECT_EQ(pool.take(10000), other);  // which is as large as it was
    EXPECT_EQ(device.made, 3);
    pool.give_back(one, 10000);
    pool.give_back(other, 10000);
    pool.give_back(more, 100);
    EXPECT_EQ(pool.lent(), 0u);
  }
  EXPECT_EQ(device.there, 0u);  // each is given back as large as it was made
}

TEST(HostPool, TheSmallestThatIsLargeEnoughIsLent) {
  CountingDevice device;
  HostPool pool(device);
  pool.reserve(100000, 1);
  pool.reserve(20000, 1);
  std::byte* const small = pool.take(3000);
  std::byte* const large = pool.take(60000);
  EXPECT_EQ(device.made, 2);
  pool.give_back(small, 3000);
  pool.give_back(large, 60000);
}

}  // namespace host_pool_test
}  // namespace hetpipe
