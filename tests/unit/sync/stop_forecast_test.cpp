// SPDX-License-Identifier: Apache-2.0
#include "runtime/sync/stop_forecast.h"

#include <gtest/gtest.h>

namespace hetpipe {
namespace stop_forecast_test {

TEST(StopForecast, FollowsFromTheNewestWaves) {
  StopForecast forecast;
  forecast.started(100);
  for (const double at : {160.0, 162.0}) forecast.wave_done(at);
  EXPECT_EQ(forecast.wave_seconds(), std::nullopt);  // the first one may have been a slow start
  forecast.wave_done(164);
  EXPECT_EQ(forecast.wave_seconds(), 2);
  EXPECT_EQ(forecast.until(3, 164), 6);
  EXPECT_EQ(forecast.until(3, 165.5), 4.5);
  EXPECT_EQ(forecast.until(1, 170), 0);  // overdue
  EXPECT_EQ(forecast.until(3, 170), 4);
  // Of the newest five one took long, for an evaluation.
  for (const double at : {167.0, 190.0, 193.0, 196.0, 199.0}) forecast.wave_done(at);
  EXPECT_EQ(forecast.wave_seconds(), 3);
}

TEST(StopForecast, OfTheWavesUntilAllCanStop) {
  WaveRules rules{.in_flight = 3, .distance = 0, .end = {90}};
  EXPECT_EQ(StopForecast::waves_at_most(rules), 2);
  rules.distance = 4;
  EXPECT_EQ(StopForecast::waves_at_most(rules), 6);
  rules.distance = kUnbounded;
  EXPECT_EQ(StopForecast::waves_at_most(rules), 2);
}

}  // namespace stop_forecast_test
}  // namespace hetpipe
