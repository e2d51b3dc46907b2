// SPDX-License-Identifier: Apache-2.0
#include "runtime/monitoring/prometheus.h"

#include <charconv>
#include <cmath>
#include <concepts>
#include <initializer_list>
#include <optional>
#include <utility>

#include "base/json.h"

namespace hetpipe {
namespace {

using Labels = std::initializer_list<std::pair<const char*, std::string>>;

// In the fewest digits that read back as the same.
std::string number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

class Page {
 public:
  explicit Page(const std::string& run) : run_(escaped_label(run)) {}

  // Samples of a metric follow its name.
  void metric(const char* name, const char* type, const char* help) {
    name_ = std::string("hetpipe_") + name;
    head_ = "# HELP " + name_ + ' ' + help + "\n# TYPE " + name_ + ' ' + type + '\n';
  }
  void sample(std::optional<double> value, const Labels& labels = {}) {
    if (!value) return;
    text_ += std::exchange(head_, "") + name_ + "{run=\"" + run_ + '"';
    for (const auto& [label, of] : labels) {
      text_ += std::string(",") + label + "=\"" + escaped_label(of) + '"';
    }
    text_ += "} " + number(*value) + '\n';
  }
  template <std::integral Whole>
  void sample(Whole value, const Labels& labels = {}) {
    sample(std::optional(static_cast<double>(value)), labels);
  }
  std::string take() { return std::move(text_); }

 private:
  std::string run_;
  std::string name_;
  std::string head_;  // of a metric without samples yet
  std::string text_;
};

void add_run(Page& page, const RunStatus& status) {
  page.metric("run_info", "gauge", "What is trained; the value is 1.");
  page.sample(1, {{"model", status.model}, {"system", status.system}});
  page.metric("run_active", "gauge", "1 while the run goes on, 0 when it has ended.");
  page.sample(status.is_over() ? 0 : 1);
  page.metric("run_exit_code", "gauge", "Exit code of the run, once it has ended.");
  if (status.state == kEnded) page.sample(status.exit_code);
  page.metric("run_start_timestamp_seconds", "gauge", "When the run started.");
  page.sample(status.started);
  page.metric("run_update_timestamp_seconds", "gauge", "When this file was written.");
  page.sample(status.time);
}

void add_progress(Page& page, const RunStatus& status) {
  page.metric("samples_total", "counter", "Training samples consumed, over all runs.");
  page.sample(status.samples);
  page.metric("planned_samples", "gauge", "Training samples at the end of the training.");
  page.sample(status.end_samples);
  page.metric("epoch", "gauge", "Passes over the training samples.");
  page.sample(status.epoch());
  page.metric("waves_total", "counter", "Waves that all virtual workers have done.");
  page.sample(status.waves);
  page.metric("planned_waves", "gauge", "Waves at the end of the run.");
  page.sample(status.end_waves);
  page.metric("samples_per_second", "gauge", "Training samples per second in the newest wave.");
  page.sample(status.samples_per_second);
  page.metric("remaining_seconds", "gauge", "Estimated time until the end of the run.");
  page.sample(status.seconds_left);
  page.metric("loss", "gauge", "Mean training loss of the newest wave.");
  page.sample(status.loss);
  page.metric("accuracy_ratio", "gauge", "Share of labels predicted in the newest wave.");
  page.sample(status.accuracy);
  page.metric("learning_rate", "gauge", "Learning rate.");
  page.sample(status.learning_rate);
  page.metric("test_loss", "gauge", "Loss of the newest evaluation.");
  page.sample(status.test_loss);
  page.metric("test_accuracy_ratio", "gauge", "Accuracy of the newest evaluation.");
  page.sample(status.test_accuracy);
  page.metric("checkpoint_timestamp_seconds", "gauge",
              "When this run wrote its newest checkpoint.");
  if (!status.checkpoint.empty()) page.sample(status.checkpoint_time);
}

void add_workers(Page& page, const RunStatus& status) {
  const auto each = [&](const auto& sample) {
    for (std::size_t i = 0; i < status.virtual_workers.size(); ++i) {
      sample(status.virtual_workers[i], std::to_string(i), static_cast<int>(i));
    }
  };
  page.metric("virtual_worker_waves_total", "counter", "Waves done.");
  each([&](const WorkerStatus& worker, const std::string& name, int) {
    page.sample(worker.waves, {{"virtual_worker", name}});
  });
  page.metric("virtual_worker_minibatches_total", "counter", "Minibatches done.");
  each([&](const WorkerStatus& worker, const std::string& name, int) {
    page.sample(worker.minibatches, {{"virtual_worker", name}});
  });
  page.metric("virtual_worker_staleness_minibatches", "gauge",
              "Updates that the minibatches of its newest wave missed: the least and the most.");
  each([&](const WorkerStatus& worker, const std::string& name, int) {
    page.sample(worker.staleness_min, {{"virtual_worker", name}, {"bound", "min"}});
    page.sample(worker.staleness_max, {{"virtual_worker", name}, {"bound", "max"}});
  });
  page.metric("virtual_worker_wait_seconds_total", "counter",
              "Time for which its ranks stood still in this run, added up, by cause.");
  each([&](const WorkerStatus&, const std::string& name, int worker) {
    const WaitSeconds waited = waited_by(status, worker);
    for_each_field<WaitSeconds>([&](auto cause) {
      page.sample(waited.*cause.member,
                  {{"virtual_worker", name}, {"cause", std::string(cause.name)}});
    });
  });
}

void add_ranks(Page& page, const RunStatus& status) {
  const auto each = [&](const auto& value) {
    for (const RankStatus& rank : status.ranks) {
      page.sample(value(rank), {{"rank", std::to_string(rank.rank)},
                                {"device", rank.device},
                                {"virtual_worker", std::to_string(rank.virtual_worker)},
                                {"stage", std::to_string(rank.stage)},
                                {"replica", std::to_string(rank.replica)}});
    }
  };
  page.metric("rank_peak_memory_bytes", "gauge", "Most device memory in use in this run.");
  each([](const RankStatus& rank) {
    return rank.peak_memory > 0 ? std::optional(static_cast<double>(rank.peak_memory))
                                : std::nullopt;
  });
  page.metric("rank_training_seconds_total", "counter", "Time of training in this run.");
  each([](const RankStatus& rank) { return rank.seconds; });
  page.metric("rank_slowdown_ratio", "gauge",
              "How many times slower than usual the rank computes, where it was named as slow.");
  each([](const RankStatus& rank) { return rank.slowdown; });
}

}  // namespace

// What is not UTF-8 would make a reader refuse the whole file.
std::string escaped_label(std::string_view value) {
  std::string text;
  for (const char c : value) {
    if (c == '\n') {
      text += "\\n";
      continue;
    }
    if (c == '\\' || c == '"') text += '\\';
    text += c;
  }
  if (is_utf8(text)) return text;
  for (char& c : text) {
    if (static_cast<unsigned char>(c) > 0x7f) c = '?';
  }
  return text;
}

std::string prometheus_text(const RunStatus& status) {
  Page page(status.run);
  add_run(page, status);
  add_progress(page, status);
  add_workers(page, status);
  add_ranks(page, status);
  return page.take();
}

}  // namespace hetpipe
