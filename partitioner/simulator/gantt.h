// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "partitioner/cluster/cluster.h"
#include "partitioner/simulator/simulate.h"

// Pictures of a simulation that kept its events: a row per device, time to the right.
namespace hetpipe {

// Seconds from the start of the run.
struct TimeSpan {
  double begin = 0;
  double end = 0;
};

// What a picture shows. Absent ends are chosen so that single actions can be distinguished.
struct GanttRequest {
  int width = 100;  // characters of a line, of the text alone
  std::optional<double> from;
  std::optional<double> until;
};

// From the first to the last event.
TimeSpan span_of(const Simulation& simulation);

// The part that is drawn where the request leaves it open: from its begin, as much as leaves
// `columns` places four of which hold an ordinary action.
TimeSpan shown_span(const Simulation& simulation, const GanttRequest& request, int columns);

// Letters for what computes (F B W, R recompute, U update), digits for its minibatch, or its
// micro-batch where minibatches are cut; '.' idle. With a ruler and a legend.
//   n0:0 fast  F0--F1--B0------F2--
//   n0:1 slow  ....F0------B0------
// UserError where nothing lies in the span asked for.
std::string gantt_text(const Simulation& simulation, const Cluster& cluster,
                       const GanttRequest& request = {});

// The same as a drawing (SVG 1.1): coloured by kind, waits for messages as thin bars, an axis in
// seconds, rows labelled with device, kind, virtual worker and stage; every box has a tooltip.
std::string gantt_svg(const Simulation& simulation, const Cluster& cluster,
                      const GanttRequest& request = {});

// Whether a device computes during this action (F B W R U), rather than sending or waiting.
bool computes(ActionKind kind);

}  // namespace hetpipe
