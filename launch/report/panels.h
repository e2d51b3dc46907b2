// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "launch/report/browser_simulator.h"
#include "launch/report/device_time.h"
#include "launch/report/reported_run.h"

// The panels of one run, each a section of the page: HTML.
namespace hetpipe {

// What a panel shows, and where it stands.
struct PanelRun {
  const ReportedRun& run;
  std::vector<DeviceTime> times;
  std::string id;              // of the run on the page: what its panels' ids start with
  int level = 2;               // of its headings
  std::size_t most_bytes = 0;  // that its timeline may take
  std::size_t most_text = 0;   // of each of its files
  bool simulator = false;      // the page has one
  std::span<const ReportedRun> before{};  // runs that stand before it
};

std::string limit_panel(const PanelRun& of);       // what limits the run, and what helps most
std::string time_panel(const PanelRun& of);        // where the time went; predicted, measured
std::string pool_panel(const PanelRun& of);        // nodes, devices, links, servers
std::string timeline_panel(const PanelRun& of);    // what every rank did when
std::string memory_panel(const PanelRun& of);      // against the ledger
std::string links_panel(const PanelRun& of);       // bytes and bandwidths
std::string learning_panel(const PanelRun& of);    // loss, accuracy, learning rate, staleness
std::string what_if_panel(const PanelRun& of);     // sliders, where the page has the simulator
std::string provenance_panel(const PanelRun& of);  // where it comes from, how to repeat it

// What sliders need once on a page.
std::string what_if_assets(const BrowserSimulator& simulator);

}  // namespace hetpipe
