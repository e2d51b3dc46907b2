// SPDX-License-Identifier: Apache-2.0
#include "base/shared_value.h"

#include <gtest/gtest.h>

#include <string>

namespace hetpipe {

TEST(SharedValue, CopiesAreOneUntilOneChanges) {
  SharedValue<std::string> one(std::string("a"));
  SharedValue<std::string> other = one;
  EXPECT_EQ(&*one, &*other);
  other.change() += "b";
  EXPECT_EQ(*one, "a");
  EXPECT_EQ(*other, "ab");
  const std::string* alone = &*other;
  other.change() += "c";
  EXPECT_EQ(&*other, alone);  // nobody shared it
  EXPECT_EQ(other->size(), 3U);
}

}  // namespace hetpipe
