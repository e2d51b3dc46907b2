// SPDX-License-Identifier: Apache-2.0
#include "launch/plan/search_text.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"

namespace hetpipe {
namespace {

constexpr std::size_t kMostCandidates = 8;
constexpr double kVisible = 5e-4;  // less prints as 0.0 %

}  // namespace

std::string search_text(const SearchResult& result, const Cluster& cluster) {
  Table table({"considered", "plan", "samples/s"});
  const std::size_t shown = std::min(result.considered.size(), kMostCandidates);
  for (std::size_t i = 0; i < shown; ++i) {
    const SearchCandidate& candidate = result.considered[i];
    table.add({candidate.origin,
               candidate.throughput > 0 ? candidate.what : first_line(candidate.why_not),
               candidate.throughput > 0 ? format("%.4g", candidate.throughput) : "-"});
  }
  std::string text = table.text();
  if (shown < result.considered.size()) {
    text += format("and %zu more\n", result.considered.size() - shown);
  }
  text += result.exact ? format("all plans were compared (%lld simulations)\n",
                                static_cast<long long>(result.simulations))
                       : format("%lld simulations; no plan can exceed %.4g samples/s\n",
                                static_cast<long long>(result.simulations), result.bound);
  const double chosen = result.plan.predicted ? result.plan.predicted->throughput : 0;
  if (shown > 0 && result.considered.front().throughput > chosen * (1 + 1e-6)) {
    text += format(
        "chosen: the plan of %.4g samples/s, the least stale of those within 1 %% of the "
        "best\n",
        chosen);
  }
  for (const LeftOut& left : result.left_out) {
    text += format("left idle: %s %s", to_string(left.device).c_str(),
                   cluster.kind_of(left.device).name.c_str());
    if (!left.change) {
      text += " (no plan that uses it was found)\n";
    } else if (std::abs(*left.change) < kVisible) {
      text += " (using it: no change)\n";
    } else {
      text += format(" (using it: %+.1f %%)\n", 100 * *left.change);
    }
  }
  return text;
}

}  // namespace hetpipe
