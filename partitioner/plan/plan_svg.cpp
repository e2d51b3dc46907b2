// SPDX-License-Identifier: Apache-2.0
#include "partitioner/plan/plan_svg.h"

#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "base/markup.h"
#include "base/text.h"
#include "partitioner/cost/memory.h"
#include "partitioner/cost/stage_cost.h"
#include "partitioner/plan/layer_names.h"
#include "partitioner/plan/plan_table_parts.h"

namespace hetpipe {
namespace {

// Sizes in pixels.
constexpr double kPictureWidth = 1200;
constexpr double kPictureMargin = 16;
constexpr double kLetter = 6.8;  // about, at font size 12; wide ones too
constexpr double kDeviceWidth = 132;
constexpr double kDeviceHeight = 54;
constexpr double kBetween = 10;
constexpr double kNodeTop = 24;  // of a node's name
constexpr double kStageRow = 26;
constexpr double kBars = 560;  // where they begin
constexpr double kBarPixels = 420;

// Of virtual workers, in turns: light enough for dark letters (after Okabe and Ito).
constexpr std::array kWorkerColours{"#9bd0f2", "#f5c27a", "#8fd9b6", "#e6b3d2",
                                    "#f0e68c", "#c9b8f0", "#f4a58a", "#c3cbd3"};
constexpr const char* kUnused = "#f2f2f2";
constexpr const char* kMessages = "#d9822b";
constexpr const char* kFull = "#5b6b7d";

const char* colour_of(std::size_t vw) { return kWorkerColours[vw % kWorkerColours.size()]; }

std::string text_at(double x, double y, const std::string& text, const char* more = "") {
  return format("<text x=\"%.1f\" y=\"%.1f\"%s>", x, y, more) + markup_text(text) + "</text>\n";
}
std::string box(double x, double y, double width, double height, const char* fill,
                const std::string& tip = {}) {
  return format(
             "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\" "
             "stroke=\"#636363\" stroke-width=\"0.6\">",
             x, y, width, height, fill) +
         (tip.empty() ? "" : "<title>" + markup_text(tip) + "</title>") + "</rect>\n";
}
// As much of it as there is room for.
std::string fitting(const std::string& text, double width) {
  const auto most = static_cast<std::size_t>(std::max(1.0, width / kLetter));
  if (text.size() <= most) return text;
  std::size_t end = most - 1;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end) + "…";
}

struct Place {
  std::size_t vw;
  std::size_t stage;
};

std::string device_svg(const Cluster& cluster, const DeviceName& device, const Place* place,
                       double x, double y) {
  const DeviceKind& kind = cluster.kind_of(device);
  const std::string name = kind.name + ", " + format_bytes(static_cast<double>(kind.memory));
  const std::string work =
      place == nullptr ? "not used" : format("worker %zu, stage %zu", place->vw, place->stage);
  std::string svg =
      box(x, y, kDeviceWidth, kDeviceHeight, place == nullptr ? kUnused : colour_of(place->vw),
          to_string(device) + ": " + name + "; " + work);
  const double room = kDeviceWidth - 12;
  svg += text_at(x + 6, y + 16, fitting(to_string(device), room), " font-weight=\"bold\"");
  svg += text_at(x + 6, y + 31, fitting(name, room));
  return svg + text_at(x + 6, y + 46, fitting(work, room));
}

// Nodes beside each other, as many as have room; `y` moves below them.
std::string pool_svg(const Plan& plan, const Cluster& cluster, double& y) {
  std::map<std::string, Place> places;
  for (std::size_t vw = 0; vw < plan.virtual_workers.size(); ++vw) {
    const auto& stages = plan.virtual_workers[vw].stages;
    for (std::size_t k = 0; k < stages.size(); ++k) {
      for (const DeviceName& device : stages[k].devices) {
        places.try_emplace(to_string(device), Place{vw, k});
      }
    }
  }
  std::map<std::string, int> shards;
  if (plan.server) {
    for (const std::string& node : plan.server->nodes) ++shards[node];
  }
  std::string svg;
  double x = kPictureMargin, lowest = y;
  for (const Node& node : cluster.nodes) {
    const std::size_t count = node.kinds.size();
    const std::size_t across = std::clamp<std::size_t>(count, 1, 8);
    const std::size_t down = (count + across - 1) / across;
    const double width = static_cast<double>(across) * (kDeviceWidth + kBetween) + kBetween;
    const bool serves = shards.contains(node.name);
    const double height = kNodeTop + static_cast<double>(down) * (kDeviceHeight + kBetween) +
                          (serves ? kNodeTop : 0) + (count == 0 && !serves ? kBetween : 0);
    if (x > kPictureMargin && x + width > kPictureWidth - kPictureMargin) {
      x = kPictureMargin;
      y = lowest + kBetween;
    }
    svg += box(x, y, width, height, "#ffffff", "node " + node.name);
    svg += text_at(x + kBetween, y + 17, fitting("node " + node.name, width - 2 * kBetween));
    for (std::size_t i = 0; i < count; ++i) {
      const DeviceName device{node.name, static_cast<int>(i)};
      const auto place = places.find(to_string(device));
      svg +=
          device_svg(cluster, device, place == places.end() ? nullptr : &place->second,
                     x + kBetween + static_cast<double>(i % across) * (kDeviceWidth + kBetween),
                     y + kNodeTop + static_cast<double>(i / across) * (kDeviceHeight + kBetween));
    }
    if (serves) {
      const int own = shards[node.name];
      const std::string what =
          own == 1 ? std::string("parameter server") : format("%d server shards", own);
      svg += text_at(x + kBetween, y + height - 8, fitting(what, width - 2 * kBetween));
    }
    lowest = std::max(lowest, y + height);
    x += width + kBetween;
  }
  y = lowest + 2 * kBetween;
  return svg;
}

std::string stage_svg(const Plan& plan, const Cluster& cluster, const Profile& profile,
                      const Place& place, const StageCost& cost, double slowest, double y) {
  const PlanStage& stage = plan.virtual_workers[place.vw].stages[place.stage];
  const StageNeed need =
      fullest_replica(plan, cluster, profile, VirtualWorkerId{static_cast<int>(place.vw)},
                      StageId{static_cast<int>(place.stage)});
  std::string svg = box(kPictureMargin, y + 5, 12, 14, colour_of(place.vw));
  const std::string name = format("worker %zu, stage %zu: ", place.vw, place.stage) +
                           device_names(stage.devices) + ": " +
                           layer_range(profile, stage.first_layer, stage.end_layer);
  svg += text_at(kPictureMargin + 20, y + 17, fitting(name, kBars - kPictureMargin - 36));
  const double scale = kBarPixels / std::max(slowest, 1e-30);
  const double compute = cost.compute() * scale, receive = cost.receive() * scale;
  svg += box(kBars, y + 4, compute, 16, colour_of(place.vw),
             "forward and backward: " + format_seconds(cost.compute()));
  if (receive > 0.05) {
    svg += box(kBars + compute, y + 4, receive, 16, kMessages,
               "messages: " + format_seconds(cost.receive()));
  }
  svg += text_at(kBars + kBarPixels + 8, y + 17, format_seconds(cost.total()));
  const double full = kBars + kBarPixels + 90;
  const double room = kPictureWidth - kPictureMargin - full - 44;
  svg += box(full, y + 6, room, 12, "#ffffff");
  svg += box(full, y + 6, room * std::min(1.0, need.full()), 12, kFull,
             format_bytes(static_cast<double>(need.ledger.total())) + " of " +
                 format_bytes(static_cast<double>(need.memory)));
  return svg + text_at(full + room + 6, y + 17, format("%.0f %%", 100 * need.full()));
}

}  // namespace

std::string plan_svg(const Plan& plan, const Cluster& cluster, const Profile& profile) {
  double y = 2 * kPictureMargin;
  std::string title =
      format("%s under %s: minibatch %d", plan.model.c_str(), plan.system.c_str(), plan.minibatch);
  if (plan.micro_batches > 1) title += format(" in %d micro-batches", plan.micro_batches);
  if (plan.predicted) title += format(", %.4g samples/s predicted", plan.predicted->throughput);
  std::string svg = text_at(kPictureMargin, y - 8, title, " font-size=\"15\" font-weight=\"bold\"");
  y += 4;
  svg += pool_svg(plan, cluster, y);

  std::vector<std::vector<StageCost>> costs;
  double slowest = 0;
  for (std::size_t vw = 0; vw < plan.virtual_workers.size(); ++vw) {
    costs.push_back(stage_costs(plan, cluster, profile, VirtualWorkerId{static_cast<int>(vw)}));
    for (const StageCost& cost : costs.back()) slowest = std::max(slowest, cost.total());
  }
  svg += text_at(kPictureMargin, y + 12, "stages and their layers", " fill=\"#444\"");
  svg +=
      text_at(kBars, y + 12, "time of a minibatch: compute, messages (orange)", " fill=\"#444\"");
  svg += text_at(kBars + kBarPixels + 90, y + 12, "memory", " fill=\"#444\"");
  y += 18;
  for (std::size_t vw = 0; vw < costs.size(); ++vw) {
    for (std::size_t k = 0; k < costs[vw].size(); ++k) {
      svg += stage_svg(plan, cluster, profile, {vw, k}, costs[vw][k], slowest, y);
      y += kStageRow;
    }
  }
  y += kPictureMargin;
  return format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
             "viewBox=\"0 0 %.0f %.0f\" font-family=\"sans-serif\" font-size=\"12\">\n"
             "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
             kPictureWidth, y, kPictureWidth, y) +
         svg + "</svg>\n";
}

}  // namespace hetpipe
