// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "base/markup.h"
#include "base/text.h"
#include "launch/report/html.h"
#include "launch/report/panels.h"
#include "partitioner/cost/memory.h"

namespace hetpipe {
namespace {

std::string device_of(const DeviceTime& time) {
  return format("vw %d, stage %d: %s", time.virtual_worker, time.stage, time.device.c_str());
}

// What was held by kind, of the result; each kind's most, at whatever moment.
const Json* measured_kinds(const ReportedRun& run, const DeviceTime& time) {
  if (run.result.is_null()) return nullptr;
  for (const Json& rank : run.result.at("ranks").items()) {
    const bool own = rank.at("virtual_worker").get<int>() == time.virtual_worker &&
                     rank.at("stage").get<int>() == time.stage &&
                     rank.at("replica").get<int>() == time.replica;
    if (own) return rank.find("memory");
  }
  return nullptr;
}

std::string kinds_table(const PanelRun& of, const DeviceTime& time, const MemoryLedger& ledger) {
  HtmlTable lines("The ledger of " + device_of(time), {"line", "bytes"});
  for (const LedgerLine& line : ledger.lines) {
    lines.add({markup_text(line.name), html_bytes(line.bytes)});
  }
  std::string html = lines.html();
  const Json* kinds = measured_kinds(of.run, time);
  if (kinds == nullptr) return html;
  HtmlTable table("The most that " + device_of(time) + " held of each kind", {"kind", "bytes"});
  for (const auto& [kind, bytes] : kinds->members()) {
    table.add({markup_text(kind), html_bytes(bytes.get<std::int64_t>())});
  }
  return html + table.html();
}

}  // namespace

std::string memory_panel(const PanelRun& of) {
  const ReportedRun& run = of.run;
  std::string html, details;
  if (!run.cluster || !run.profile) {
    html =
        html_paragraph("The run directory lacks its cluster or its profile: there is no ledger.");
    return html_section(of.id + "-memory", of.level, "Memory", html);
  }
  HtmlTable table("Memory of each device",
                  {"device", "ledger", "measured", "measured by ledger", "the device has"});
  try {
    for (const DeviceTime& time : of.times) {
      const MemoryLedger ledger =
          stage_ledger(run.plan, *run.cluster, *run.profile, VirtualWorkerId{time.virtual_worker},
                       StageId{time.stage}, time.replica);
      const auto name = try_parse_device(time.device);
      const auto total = static_cast<double>(ledger.total());
      table.add(
          {markup_text(device_of(time)), html_bytes(ledger.total()),
           time.peak_memory ? html_bytes(*time.peak_memory) : "-",
           time.peak_memory && total > 0
               ? html_percent(static_cast<double>(*time.peak_memory) / total)
               : "-",
           name && run.cluster->has(*name) ? html_bytes(run.cluster->kind_of(*name).memory) : "-"});
      details += kinds_table(of, time, ledger);
    }
    html = table.html() + html_details("Line by line", details);
  } catch (const UserError& error) {
    html = html_paragraph("There is no ledger: " + markup_text(first_line(error.what())));
  }
  return html_section(of.id + "-memory", of.level, "Memory", html);
}

}  // namespace hetpipe
