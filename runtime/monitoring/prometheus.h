// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "runtime/monitoring/run_status.h"

namespace hetpipe {

// A run in Prometheus' text exposition format (prometheus.io/docs/instrumenting/exposition_formats,
// version 0.0.4), for the textfile collector of the node exporter. Every sample bears the run's
// directory as the label `run`, so that files of several runs may lie in one folder. What is not
// known yet is left out.
std::string prometheus_text(const RunStatus& status);

// A label's value, without its quotes: backslash, quote and line feed are escaped.
std::string escaped_label(std::string_view value);

}  // namespace hetpipe
