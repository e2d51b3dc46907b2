// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/markup.h"
#include "base/text.h"
#include "launch/report/html.h"
#include "launch/report/message_times.h"
#include "launch/report/panels.h"

namespace hetpipe {
namespace {

std::string sent_table(const ReportedRun& run) {
  if (run.result.is_null()) return {};
  HtmlTable table(
      "What each device sent, and pulled",
      {"device", "forward", "backward", "pushed", "pulled", "summed", "evaluation", "messages"});
  for (const Json& rank : run.result.at("ranks").items()) {
    std::vector<std::string> row{
        markup_text(format("vw %d, stage %d: ", rank.at("virtual_worker").get<int>(),
                           rank.at("stage").get<int>()) +
                    rank.at("device").get<std::string>())};
    for (const char* key : {"forward", "backward", "pushed", "pulled", "summed", "evaluation"}) {
      row.push_back(html_bytes(rank.at("bytes").at(key).get<std::int64_t>()));
    }
    std::int64_t messages = 0;
    for (const char* key : {"forward", "backward", "pushes", "pulls", "summed"}) {
      messages += rank.at("messages").at(key).get<std::int64_t>();
    }
    row.push_back(html_count(messages));
    table.add(std::move(row));
  }
  return table.html();
}

// By the cluster file, with the latency of one message of the route's mean size.
double stated_speed(const ReportedRun& run, const MessageRoute& route) {
  const auto from = try_parse_device(route.from);
  const auto to = try_parse_device(route.to);
  if (!run.cluster || !from || !to || !run.cluster->has(*from) || !run.cluster->has(*to)) return 0;
  const double bytes = static_cast<double>(route.bytes) / static_cast<double>(route.messages);
  return bytes / run.cluster->link(*from, *to).transfer_seconds(bytes);
}

std::string routes_table(const ReportedRun& run) {
  const std::vector<MessageRoute> routes = message_routes(run);
  if (routes.empty()) {
    return html_paragraph(
        "The traces do not tell how fast single messages were (there are none between stages, or "
        "stages are replicated or interleaved).");
  }
  HtmlTable table(
      "Activations and gradients between stages",
      {"from and to", "messages", "bytes", "reached at least", "by the cluster file", "reached"});
  const MessageRoute* slowest = nullptr;
  double least = 0;
  for (const MessageRoute& route : routes) {
    const double stated = stated_speed(run, route);
    const double share = stated > 0 ? route.reached / stated : 0;
    if (stated > 0 && (slowest == nullptr || share < least)) {
      slowest = &route;
      least = share;
    }
    table.add({markup_text(route.from + " to " + route.to), html_count(route.messages),
               html_bytes(route.bytes), html_bandwidth(route.reached),
               stated > 0 ? html_bandwidth(stated) : "-", stated > 0 ? html_percent(share) : "-"});
  }
  std::string html;
  if (slowest != nullptr) {
    html = html_paragraph("Furthest from the cluster file is the link from " +
                          markup_text(slowest->from) + " to " + markup_text(slowest->to) +
                          ": its fastest message reached " + html_percent(least) +
                          " of what the file states for its size.");
  }
  return html + table.html() +
         html_paragraph(
             "Reached: a message's bytes by the time from when it was handed over until its "
             "receiver "
             "had it, of the fastest message. A receiver that was busy takes it later, so the link "
             "is at least so fast.");
}

}  // namespace

std::string links_panel(const PanelRun& of) {
  return html_section(of.id + "-links", of.level, "Links",
                      sent_table(of.run) + routes_table(of.run));
}

}  // namespace hetpipe
