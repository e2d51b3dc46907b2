// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include "base/index.h"
#include "base/text.h"
#include "launch/report/html.h"
#include "launch/report/panels.h"
#include "launch/report/svg.h"
#include "partitioner/schedule/schedule.h"
#include "runtime/training/job.h"

namespace hetpipe {
namespace {

constexpr int kMostBehind = 40;  // waves that the histogram tells apart

// A series of a run over its samples and over its training time.
struct LearningSeries {
  ChartLine over_samples;
  ChartLine over_time;
};

const std::vector<MetricPoint>* metric_of(const ReportedRun& run, const std::string& name) {
  for (const Trace& trace : run.traces) {
    const auto found = trace.metrics.find(name);
    if (found != trace.metrics.end()) return &found->second;
  }
  return nullptr;
}

// Where a wave's metrics lie: samples at its end, and training time, which follows from its pace.
struct WavePlaces {
  std::map<Wave, double> samples;
  std::map<Wave, double> seconds;
};

WavePlaces places_of(const ReportedRun& run) {
  WavePlaces places;
  const std::vector<MetricPoint>* paces = metric_of(run, "samples_per_second");
  if (paces == nullptr) return places;
  const double per_wave =
      static_cast<double>(run.plan.global_batch()) * static_cast<double>(run.plan.wave_length());
  const double first = run.number("start_samples").value_or(0);
  const auto most = run.number("samples");
  double samples = 0, seconds = 0;
  for (const MetricPoint& point : *paces) {
    samples += per_wave;
    if (most) samples = std::min(samples, *most);
    if (point.value > 0) seconds += per_wave / point.value;
    places.samples[point.wave] = first + samples;
    places.seconds[point.wave] = seconds;
  }
  return places;
}

LearningSeries of_waves(const ReportedRun& run, const WavePlaces& places, const char* metric,
                        const char* name) {
  LearningSeries series;
  series.over_samples.name = series.over_time.name = name;
  if (const std::vector<MetricPoint>* points = metric_of(run, metric)) {
    for (const MetricPoint& point : *points) {
      const auto samples = places.samples.find(point.wave);
      if (samples == places.samples.end()) continue;
      series.over_samples.points.emplace_back(samples->second, point.value);
      series.over_time.points.emplace_back(places.seconds.at(point.wave), point.value);
    }
  }
  return series;
}

// Of a result; of a run without one from the traces, whose labels count waves.
LearningSeries of_evaluations(const ReportedRun& run, const WavePlaces& places, const char* key) {
  LearningSeries series;
  series.over_samples = {"test", {}, true};
  series.over_time = {"test", {}, true};
  if (run.result.is_null()) {
    if (const std::vector<MetricPoint>* points = metric_of(run, key)) {
      for (const MetricPoint& point : *points) {
        const auto samples = places.samples.find(point.wave - 1);
        if (samples == places.samples.end()) continue;
        series.over_samples.points.emplace_back(samples->second, point.value);
        series.over_time.points.emplace_back(places.seconds.at(point.wave - 1), point.value);
      }
    }
    return series;
  }
  for (const Json& evaluation : run.result.at("evaluations").items()) {
    const Json& value = evaluation.at(key);
    if (value.is_null()) continue;
    series.over_samples.points.emplace_back(evaluation.at("samples").get<double>(),
                                            value.get<double>());
    series.over_time.points.emplace_back(evaluation.at("seconds").get<double>(),
                                         value.get<double>());
  }
  return series;
}

struct LearningChart {
  const char* id;
  const char* title;
  const char* metric;
  const char* test;
};

std::string charts_of(const PanelRun& of, const WavePlaces& places, const LearningChart& what) {
  const LearningSeries training = of_waves(of.run, places, what.metric, "training");
  const LearningSeries test = of_evaluations(of.run, places, what.test);
  std::string html;
  for (const bool time : {false, true}) {
    Chart chart;
    chart.drawing.id = of.id + "-" + what.id + (time ? "-time" : "-samples");
    chart.drawing.title =
        std::string(what.title) + (time ? " over training time" : " over samples");
    chart.across = time ? "training time in s, without evaluations" : "samples";
    for (const LearningSeries* series : {&training, &test}) {
      const ChartLine& line = time ? series->over_time : series->over_samples;
      if (line.points.empty()) continue;
      chart.drawing.description += format("%s from %.4g to %.4g. ", line.name.c_str(),
                                          line.points.front().second, line.points.back().second);
      chart.lines.push_back(line);
    }
    if (chart.lines.empty()) continue;
    html += svg_chart(std::move(chart));
  }
  return html;
}

std::string rate_chart(const PanelRun& of, const WavePlaces& places) {
  const LearningSeries rate = of_waves(of.run, places, "learning_rate", "learning rate");
  if (rate.over_samples.points.empty()) return {};
  Chart chart;
  chart.drawing.id = of.id + "-rate";
  chart.drawing.title = "Learning rate over samples";
  chart.drawing.description = format("From %.4g to %.4g.", rate.over_samples.points.front().second,
                                     rate.over_samples.points.back().second);
  chart.across = "samples";
  chart.lines.push_back(rate.over_samples);
  return svg_chart(std::move(chart));
}

// Of the first stage's forwards: the waves between the minibatch's own and what its weights hold.
std::string waves_behind_chart(const PanelRun& of) {
  const Minibatch wave = of.run.plan.wave_length();
  std::map<std::int64_t, std::map<int, double>> counts;
  int most = 0;
  for (const Trace& trace : of.run.traces) {
    if (trace.info.virtual_worker < 0 || trace.info.stage != 0 || trace.info.replica != 0) continue;
    for (const TraceEvent& event : trace.events) {
      if (static_cast<ActionKind>(event.kind) != ActionKind::forward) continue;
      if (event.micro_batch != 0 || event.chunk != 0) continue;
      const std::int64_t behind = event.minibatch / wave - event.version;
      const int bar = static_cast<int>(std::clamp<std::int64_t>(behind, 0, kMostBehind));
      counts[trace.info.virtual_worker][bar] += 1;
      most = std::max(most, bar);
    }
  }
  if (counts.empty()) return {};
  std::vector<BarRow> rows;
  std::string description;
  for (const auto& [worker, of_worker] : counts) {
    BarRow row{format("vw %d", static_cast<int>(worker)), std::vector<double>(at(most) + 1, 0.0)};
    for (const auto& [bar, count] : of_worker) row.counts[at(bar)] = count;
    description += format("Virtual worker %d: ", static_cast<int>(worker));
    for (const auto& [bar, count] : of_worker) description += format("%.0f at %d, ", count, bar);
    rows.push_back(std::move(row));
  }
  return svg_histogram(
      {of.id + "-staleness", "Staleness: minibatches by how many waves their weights lack",
       description, 0, 0},
      "waves before the minibatch's own that its weights do not hold", 0, rows);
}

// Without servers labels count nothing: of each wave the minibatch that missed most.
std::string updates_missed_chart(const PanelRun& of) {
  const std::vector<MetricPoint>* points = metric_of(of.run, "staleness_max");
  if (points == nullptr || points->empty()) return {};
  BarRow row{"all virtual workers", {}};
  for (const MetricPoint& point : *points) {
    const auto bar = static_cast<std::size_t>(std::clamp<double>(point.value, 0, kMostBehind));
    if (row.counts.size() <= bar) row.counts.resize(bar + 1, 0.0);
    row.counts[bar] += 1;
  }
  std::string description;
  for (std::size_t bar = 0; bar < row.counts.size(); ++bar) {
    if (row.counts[bar] > 0) description += format("%.0f waves with %zu. ", row.counts[bar], bar);
  }
  return svg_histogram({of.id + "-staleness",
                        "Staleness: waves by the most updates that one of their minibatches missed",
                        description, 0, 0},
                       "updates missed", 0, {row});
}

std::string staleness_chart(const PanelRun& of) {
  return has_waves(of.run.plan) ? waves_behind_chart(of) : updates_missed_chart(of);
}

std::string evaluations_table(const PanelRun& of) {
  if (of.run.result.is_null()) return {};
  HtmlTable table("Evaluations",
                  {"after wave", "samples", "training time", "test loss", "test accuracy"});
  for (const Json& evaluation : of.run.result.at("evaluations").items()) {
    const Json& accuracy = evaluation.at("test_accuracy");
    const Json& loss = evaluation.at("test_loss");
    table.add({html_count(evaluation.at("label").get<std::int64_t>()),
               html_count(evaluation.at("samples").get<std::int64_t>()),
               html_seconds(evaluation.at("seconds").get<double>()),
               loss.is_null() ? "-" : html_loss(loss.get<double>()),
               accuracy.is_null() ? "-" : html_accuracy(accuracy.get<double>())});
  }
  return table.empty() ? html_paragraph("It was not evaluated.")
                       : html_details("Evaluations as a table", table.html());
}

std::string staleness_text(const ReportedRun& run) {
  const Json* staleness = run.result.find("staleness");
  if (staleness == nullptr) return {};
  return html_paragraph("A minibatch missed " +
                        html_count(staleness->at("min").get<std::int64_t>()) + " to " +
                        html_count(staleness->at("max").get<std::int64_t>()) + " updates.");
}

}  // namespace

std::string learning_panel(const PanelRun& of) {
  const WavePlaces places = places_of(of.run);
  std::string charts = charts_of(of, places, {"loss", "Loss", "loss", "test_loss"});
  charts += charts_of(of, places, {"accuracy", "Accuracy", "accuracy", "test_accuracy"});
  charts += rate_chart(of, places) + staleness_chart(of);
  std::string html = "<div class=\"charts\">\n" + charts + "</div>\n";
  html += staleness_text(of.run) + evaluations_table(of);
  return html_section(of.id + "-learning", of.level, "Learning", html);
}

}  // namespace hetpipe
