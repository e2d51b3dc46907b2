// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/axis.h"
#include "base/markup.h"

// What all pictures and pages share.
namespace hetpipe {
namespace drawing_test {

using testing::ElementsAre;

TEST(Markup, TextIsNeverMarkup) {
  EXPECT_EQ(markup_text("a<b> & \"c\" 'd'"), "a&lt;b&gt; &amp; &quot;c&quot; &#39;d&#39;");
  EXPECT_EQ(markup_text("two\nlines\tof\x01text"), "two\nlines\tof?text");
  EXPECT_EQ(markup_text("\u00e9"), "\u00e9");
  EXPECT_EQ(markup_text("caf\xe9 <"), "caf? &lt;");
}

TEST(Axis, HasRoundMarks) {
  EXPECT_THAT(axis_marks(0, 10, 5), ElementsAre(0, 2, 4, 6, 8, 10));
  EXPECT_THAT(axis_marks(0.13, 0.47, 4),
              ElementsAre(testing::DoubleNear(0.2, 1e-12), testing::DoubleNear(0.3, 1e-12),
                          testing::DoubleNear(0.4, 1e-12)));
  EXPECT_FALSE(axis_marks(5, 5, 4).empty());
}

}  // namespace drawing_test
}  // namespace hetpipe
