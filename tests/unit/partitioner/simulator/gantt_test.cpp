// SPDX-License-Identifier: Apache-2.0
#include "partitioner/simulator/gantt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <regex>

#include "../drawings.h"
#include "base/text.h"
#include "pictures.h"

namespace hetpipe {
namespace gantt_test {

using testing::HasSubstr;

// Columns of the text are those of the labels, two spaces, then the chart.
constexpr int kLabel = 13;

TEST(GanttText, AColumnPerSecond) {
  GanttRequest request;
  request.from = 0;
  request.until = 27;
  request.width = kLabel + 27;
  Simulation simulation = test::drawn_simulation();
  for (SimulatedEvent& event : simulation.events) {
    event.start *= 3;
    event.end *= 3;
  }
  const auto lines = split(gantt_text(simulation, test::drawn_cluster(), request), '\n');
  ASSERT_GE(lines.size(), 4u);
  EXPECT_EQ(lines[0], "             |0 s                |20.0 s");
  EXPECT_EQ(lines[1], "n0:0 fast    F0-F1-......B0----...B1----");
  EXPECT_EQ(lines[2], "n<1>:0 slow  ...F0-B0----F1-B1----......");
  EXPECT_EQ(lines[3], "F forward, B backward, . idle; numbers: minibatch");
}

TEST(GanttText, ANumberIsWrittenInFullOrNotAtAll) {
  Simulation simulation;
  simulation.stages.resize(1);
  simulation.stages[0].device = {"n0", 0};
  for (int p = 98; p < 102; ++p) {
    simulation.events.push_back(
        {0, {.kind = ActionKind::forward, .minibatch = p}, p - 98.0, p - 97.0});
  }
  GanttRequest request{12 + 12, 0, 4};  // three columns each
  const std::string text =
      gantt_text(simulation, test::cluster_of({{"fast"}}, 1'000'000'000), request);
  // 20 columns are the fewest there are: five per action.
  EXPECT_THAT(text, HasSubstr("n0:0 fast  F98--F99--F100-F101-\n"));
  request = {24, -6, 4};  // two per action
  EXPECT_THAT(gantt_text(simulation, test::cluster_of({{"fast"}}, 1'000'000'000), request),
              HasSubstr("n0:0 fast  ............F-F-F-F-\n"));
}

TEST(GanttText, ALongRunIsShownFromItsStart) {
  Simulation simulation = test::drawn_simulation();
  for (int p = 2; p < 1000; ++p) {
    simulation.events.push_back(
        {0, {.kind = ActionKind::forward, .minibatch = p}, 7.0 + p, 8.0 + p});
  }
  const std::string text = gantt_text(simulation, test::drawn_cluster(), {});
  // 100 - 13 columns at four per action of 1 s.
  EXPECT_THAT(text, HasSubstr("shown until 21.8 s of"));
  EXPECT_THAT(text, HasSubstr("F0--F1--"));
}

TEST(GanttText, MicroBatchesAreNumberedWhereThereAreSome) {
  Simulation simulation = test::drawn_simulation();
  simulation.events[3].action.micro = 7;
  const std::string text = gantt_text(simulation, test::drawn_cluster(), {});
  EXPECT_THAT(text, HasSubstr("F7"));
  EXPECT_THAT(text, HasSubstr("micro-batch of its minibatch"));
}

TEST(GanttText, NothingInTheSpanAskedFor) {
  GanttRequest request;
  request.from = 9;
  EXPECT_THAT(test::user_error(
                  [&] { gantt_text(test::drawn_simulation(), test::drawn_cluster(), request); }),
              HasSubstr("the run lasts from 0 s to 9 s"));
}

TEST(GanttSvg, WellFormedWithABoxPerActionAndNoneOverAnother) {
  const std::string svg = gantt_svg(test::drawn_simulation(), test::drawn_cluster());
  test::expect_well_formed(svg);
  EXPECT_THAT(svg, HasSubstr("n&lt;1&gt;:0 slow   w0 s1"));
  EXPECT_THAT(svg, HasSubstr("<title>backward B1: 7 s to 9 s</title>"));
  EXPECT_THAT(svg, HasSubstr(">seconds</text>"));
  EXPECT_THAT(svg, HasSubstr(">0</text>"));
  std::map<double, std::vector<test::Drawn>> rows;  // by y; boxes below the legend
  for (const test::Drawn& box : test::boxes_of(svg)) {
    if (box.y > 30 && box.height > 10) rows[box.y].push_back(box);
  }
  ASSERT_EQ(rows.size(), 2u);
  double unit = 0;
  for (auto& [y, boxes] : rows) {
    ASSERT_EQ(boxes.size(), 4u);
    std::sort(boxes.begin(), boxes.end(), [](const auto& a, const auto& b) { return a.x < b.x; });
    unit = boxes[0].width;  // F0 takes a second
    for (std::size_t i = 1; i < boxes.size(); ++i) {
      EXPECT_GE(boxes[i].x, boxes[i - 1].x + boxes[i - 1].width - 0.02);
    }
  }
  EXPECT_NEAR(unit * 9, 1400, 0.1);  // the axis holds the whole run
  EXPECT_NEAR(rows.begin()->second[2].width, 2 * unit, 0.02);
}

TEST(GanttSvg, OnlyThePartAskedFor) {
  GanttRequest request;
  request.from = 4.5;
  request.until = 5.5;
  const std::string svg = gantt_svg(test::drawn_simulation(), test::drawn_cluster(), request);
  test::expect_well_formed(svg);
  EXPECT_THAT(svg, HasSubstr(">F1</text>"));
  EXPECT_THAT(svg, testing::Not(HasSubstr(">F0</text>")));
  for (const test::Drawn& box : test::boxes_of(svg)) EXPECT_LE(box.width, 1400.01);
}

}  // namespace gantt_test
}  // namespace hetpipe
