// SPDX-License-Identifier: Apache-2.0
#include "base/unique_handle.h"

#include <gtest/gtest.h>

#include <vector>

namespace hetpipe {
namespace unique_handle_test {

std::vector<int>& closed() {
  static std::vector<int> handles;
  return handles;
}

struct Traits {
  using Handle = int;
  static Handle empty() { return -1; }
  static void close(Handle h) noexcept { closed().push_back(h); }
};
using Owner = UniqueHandle<Traits>;

class UniqueHandleTest : public ::testing::Test {
 protected:
  void SetUp() override { closed().clear(); }
};

TEST_F(UniqueHandleTest, ClosesOnce) {
  { Owner a(3); }
  EXPECT_EQ(closed(), std::vector<int>{3});
}

TEST_F(UniqueHandleTest, MoveLeavesTheSourceEmpty) {
  {
    Owner a(3);
    Owner b(std::move(a));
    EXPECT_EQ(b.get(), 3);
  }
  EXPECT_EQ(closed(), std::vector<int>{3});
}

TEST_F(UniqueHandleTest, MoveAssignmentClosesTheOldOne) {
  {
    Owner a(3);
    Owner b(4);
    b = std::move(a);
    EXPECT_EQ(closed(), std::vector<int>{4});
  }
  EXPECT_EQ(closed(), (std::vector<int>{4, 3}));
}

TEST_F(UniqueHandleTest, SelfMoveKeepsTheHandle) {
  Owner a(3);
  Owner& same = a;
  a = std::move(same);
  EXPECT_EQ(a.get(), 3);
  EXPECT_TRUE(closed().empty());
}

}  // namespace unique_handle_test
}  // namespace hetpipe
