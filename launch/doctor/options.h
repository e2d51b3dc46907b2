// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "launch/command/options.h"
#include "launch/data/feed.h"
#include "launch/plan/options.h"

namespace hetpipe {

struct DoctorOptions {
  std::optional<std::string> plan;  // files
  PlanningOptions planning;         // cluster, which may be slurm or ranks as for train; profile
  std::optional<std::string> pool;
  DataOptions data;
  std::optional<std::string> output;
  int keep = 0;  // as for train
  std::string device = "auto";
  int threads = 1;
  double timeout = 5;  // s, for a pair of ranks
  bool json = false;
};

// The table bound to `options`, which must outlive it.
OptionTable doctor_option_table(DoctorOptions& options);

}  // namespace hetpipe
