// SPDX-License-Identifier: Apache-2.0
#include "runtime/pipeline/spare_buffers.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "kernels/devices.h"

namespace hetpipe {
namespace spare_buffers_test {

constexpr auto kMessages = MemoryKind::messages;

class SpareBuffersTest : public ::testing::Test {
 protected:
  std::size_t taken() const { return device_->memory().peak(kMessages); }

  std::unique_ptr<Device> device_ = make_device("reference", 1);
  std::unique_ptr<Stream> stream_ = device_->make_stream();
  SpareBuffers spare_{*device_, *stream_, kMessages};
};

TEST_F(SpareBuffersTest, KeptOnesAreThereBeforeAnybodyWantsThem) {
  spare_.keep(100, 2);
  EXPECT_EQ(taken(), 200U);
  const Buffer one = spare_.take(100);
  const Buffer other = spare_.take(100);
  EXPECT_NE(one.data(), other.data());
  EXPECT_EQ(taken(), 200U);
}

TEST_F(SpareBuffersTest, MoreThanAreKeptComeFromTheDeviceAndGoBack) {
  spare_.keep(100, 1);
  for (int i = 0; i < 3; ++i) {
    Buffer kept = spare_.take(100);
    Buffer more = spare_.take(100);
    spare_.give_back(std::move(kept));
    spare_.give_back(std::move(more));
  }
  EXPECT_EQ(taken(), 200U);
}

TEST_F(SpareBuffersTest, TheSmallestThatIsLargeEnough) {
  spare_.keep(300, 1);
  spare_.keep(200, 1);
  EXPECT_EQ(spare_.take(150).bytes(), 200U);
  Buffer largest = spare_.take(150);
  EXPECT_EQ(largest.bytes(), 300U);
  EXPECT_EQ(spare_.take(150).bytes(), 150U);  // none is left
  spare_.give_back(std::move(largest));
  EXPECT_EQ(spare_.take(301).bytes(), 301U);
}

TEST_F(SpareBuffersTest, NothingIsKeptOfNothing) {
  spare_.keep(0, 3);
  EXPECT_EQ(spare_.take(0).bytes(), 0U);
  EXPECT_EQ(taken(), 0U);
}

}  // namespace spare_buffers_test
}  // namespace hetpipe
