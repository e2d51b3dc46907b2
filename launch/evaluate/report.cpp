// SPDX-License-Identifier: Apache-2.0
#include "launch/evaluate/report.h"

#include <algorithm>
#include <numeric>

#include "base/index.h"
#include "base/text.h"

namespace hetpipe {
namespace {

constexpr int kMostListed = 32;  // classes; of more, those with the lowest accuracy
constexpr int kLowest = 10;

double share(std::int64_t part, std::int64_t whole) {
  return static_cast<double>(part) / static_cast<double>(std::max<std::int64_t>(whole, 1));
}

std::string accuracy_line(const char* what, std::int64_t part, std::int64_t whole) {
  return format("%-20s %.2f %% (%lld of %lld)\n", what, 100 * share(part, whole),
                static_cast<long long>(part), static_cast<long long>(whole));
}

std::string name_of(const EvaluatedWhat& what, int c) {
  return at(c) < what.class_names.size() ? at(what.class_names, c) : "";
}

std::string percent(const std::optional<double>& value) {
  return value ? format("%.2f", 100 * *value) : "-";
}

std::string class_table(const Evaluation& e, const EvaluatedWhat& what) {
  const ClassCounts& counts = *e.counts;
  const bool pixels = e.measured == Measured::pixels;
  std::vector<int> listed(at(counts.classes()));
  std::iota(listed.begin(), listed.end(), 0);
  std::string text;
  if (counts.classes() > kMostListed) {
    const auto value = [&](int c) {
      return (pixels ? counts.iou(c) : counts.accuracy(c)).value_or(2);
    };
    std::ranges::stable_sort(listed, {}, value);
    listed.resize(kLowest);
    text = format("The %d of %d classes with the lowest %s (--json has all):\n", kLowest,
                  counts.classes(), pixels ? "IoU" : "accuracy");
  }
  std::vector<std::string> header{"class", "labels", "accuracy %"};
  if (pixels) header.emplace_back("IoU %");
  if (!what.class_names.empty()) header.emplace_back("name");
  Table table(header);
  for (const int c : listed) {
    std::vector<std::string> row{std::to_string(c), std::to_string(counts.labels_of(c)),
                                 percent(counts.accuracy(c))};
    if (pixels) row.push_back(percent(counts.iou(c)));
    if (!what.class_names.empty()) row.push_back(name_of(what, c));
    table.add(row);
  }
  return text + table.text("  ");
}

std::string confusion_table(const ClassCounts& counts) {
  std::vector<std::string> header{"label"};
  for (int c = 0; c < counts.classes(); ++c) header.push_back(std::to_string(c));
  Table table(header);
  for (int label = 0; label < counts.classes(); ++label) {
    std::vector<std::string> row{std::to_string(label)};
    for (int c = 0; c < counts.classes(); ++c) {
      row.push_back(std::to_string(counts.confused(label, c)));
    }
    table.add(row);
  }
  return "Predictions (columns) of each label's samples (rows):\n" + table.text("  ");
}

}  // namespace

std::string evaluation_text(const Evaluation& e, const EvaluatedWhat& what, bool confusion) {
  std::string text = format("%s: %s on %lld %s samples of %s (%s)\n", what.checkpoint.c_str(),
                            what.model.c_str(), static_cast<long long>(e.samples),
                            what.split.c_str(), what.data.c_str(), what.device.c_str());
  text += format("%-20s %.6f\n", "loss", e.loss);
  if (e.perplexity) {
    text += format("%-20s %.4f\n", "perplexity", *e.perplexity);
    text += format("%-20s %.4f\n", what.by_the_character ? "bits per character" : "bits per token",
                   *e.bits);
  }
  if (e.measured == Measured::numbers) return text;
  const char* const top1 = e.measured == Measured::pixels   ? "pixel accuracy"
                           : e.measured == Measured::tokens ? "accuracy"
                                                            : "top-1 accuracy";
  text += accuracy_line(top1, e.correct, e.labels);
  if (!e.counts) return text;
  if (e.measured == Measured::pixels) {
    text += format("%-20s %s %%\n", "mean IoU", percent(e.counts->mean_iou()).c_str());
  } else if (e.counts->classes() > ClassCounts::kTop) {
    text += accuracy_line("top-5 accuracy", e.counts->among_top(), e.labels);
  }
  text += class_table(e, what);
  if (confusion) text += confusion_table(*e.counts);
  return text;
}

Json evaluation_json(const Evaluation& e, const EvaluatedWhat& what) {
  Json json{{"checkpoint", what.checkpoint},
            {"model", what.model},
            {"data", what.data},
            {"split", what.split},
            {"device", what.device},
            {"samples", e.samples},
            {"loss", e.loss}};
  if (e.perplexity) {
    json["perplexity"] = *e.perplexity;
    json[what.by_the_character ? "bits_per_character" : "bits_per_token"] = *e.bits;
  }
  if (e.measured == Measured::numbers) return json;
  json["labels"] = e.labels;
  json["correct"] = e.correct;
  const char* const accuracy = e.measured == Measured::pixels ? "pixel_accuracy" : "accuracy";
  json[accuracy] = share(e.correct, e.labels);
  if (!e.counts) return json;
  const ClassCounts& counts = *e.counts;
  if (e.measured == Measured::pixels) {
    json["mean_iou"] = counts.mean_iou();
  } else if (counts.classes() > ClassCounts::kTop) {
    json["top5_accuracy"] = share(counts.among_top(), e.labels);
  }
  json["classes"] = Json::array();
  json["confusion"] = Json::array();
  for (int c = 0; c < counts.classes(); ++c) {
    Json one{{"class", c}, {"labels", counts.labels_of(c)}, {"accuracy", counts.accuracy(c)}};
    if (e.measured == Measured::pixels) one["iou"] = counts.iou(c);
    if (!name_of(what, c).empty()) one["name"] = name_of(what, c);
    json["classes"].push_back(one);
    Json row = Json::array();
    for (int p = 0; p < counts.classes(); ++p) row.push_back(counts.confused(c, p));
    json["confusion"].push_back(row);
  }
  return json;
}

}  // namespace hetpipe
