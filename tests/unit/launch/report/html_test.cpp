// SPDX-License-Identifier: Apache-2.0
#include "launch/report/html.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/markup.h"
#include "launch/report/svg.h"

namespace hetpipe {
namespace html_test {

using testing::HasSubstr;
using testing::Not;

TEST(Html, NumbersKeepWhatTheyRound) {
  EXPECT_EQ(html_percent(0.123456789), "<data value=\"0.123456789\">12.3 %</data>");
  EXPECT_EQ(html_bytes(std::int64_t{8437904}), "<data value=\"8437904\">8.4 MB</data>");
  EXPECT_EQ(html_bandwidth(12.5e9), "<data value=\"12500000000.0\">12.5 GB/s</data>");
  EXPECT_EQ(html_rate(465.02439660553324, "samples/s"),
            "<data value=\"465.02439660553324\">465 samples/s</data>");
}

TEST(Html, TablesNameRowsAndColumns) {
  HtmlTable table("Times <of> stages", {"stage", "time"});
  table.add({markup_text("a&b"), html_seconds(0.25)});
  const std::string html = table.html();
  EXPECT_THAT(html, HasSubstr("<caption>Times &lt;of&gt; stages</caption>"));
  EXPECT_THAT(html, HasSubstr("<th scope=\"col\">stage</th>"));
  EXPECT_THAT(html, HasSubstr("<th scope=\"row\">a&amp;b</th>"));
  EXPECT_THAT(html, HasSubstr("<td class=\"n\"><data value=\"0.25\">"));
}

// Of many points in one pixel's column the least and the largest are left.
TEST(Svg, LongLinesAreThinnedAndKeepTheirPeaks) {
  Chart chart;
  chart.drawing.id = "c";
  ChartLine line{"x", {}, false};
  for (int i = 0; i < 100000; ++i) line.points.emplace_back(i, i == 54321 ? 100.0 : i % 2);
  chart.lines.push_back(line);
  const std::string svg = svg_chart(std::move(chart));
  EXPECT_LT(svg.size(), 40000u);
  EXPECT_THAT(svg, HasSubstr(" 30.0"));  // the peak, at the top of the chart
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
}

TEST(Svg, EmptyChartsAreDrawn) {
  Chart chart;
  chart.drawing.id = "c";
  chart.lines.push_back({"x", {{3, 3}}, true});
  EXPECT_THAT(svg_chart(std::move(chart)), Not(HasSubstr("nan")));
}

}  // namespace html_test
}  // namespace hetpipe
