// SPDX-License-Identifier: Apache-2.0
#include "launch/plan/feed.h"

#include <thread>

#include "base/json.h"
#include "base/text.h"
#include "runtime/training/data_feed.h"

namespace hetpipe {

PlannedFeed planned_feed(const DataOptions& options, const Plan& plan) {
  PlannedFeed feed{.data = *options.data};
  feed.taken = most_samples_taken(plan);
  feed.cores = static_cast<int>(std::thread::hardware_concurrency());
  feed.seen = look_at_data(options, plan.model, plan.minibatch);
  return feed;
}

std::string feed_text(const PlannedFeed& feed) {
  if (!feed.seen.failure.empty()) {
    return format("data: not measured: %s\n", feed.seen.failure.c_str());
  }
  const int needed = feed.threads_needed();
  std::string text = format(
      "data: this machine reads %.0f samples/s of %s with %d thread%s; a rank of the plan takes up "
      "to %.0f",
      feed.seen.rate.samples_per_second, feed.data.c_str(), feed.seen.rate.threads,
      feed.seen.rate.threads == 1 ? "" : "s", feed.taken);
  if (feed.suffices()) {
    text += ", so it need not wait for data (on a machine as fast as this one)";
  } else if (needed == 0) {
    text +=
        ", and would wait for data: threads wait for the files most of the time, so put them on a "
        "faster disk, or in larger ones (shards, HDF5)";
  } else if (needed <= feed.cores) {
    text += format(": give hetpipe train --data-threads %d", needed);
  } else {
    text += format(
        ", which needs %d threads, and this machine has %d core%s: store the samples as small as "
        "the network sees them (hetpipe data import)",
        needed, feed.cores, feed.cores == 1 ? "" : "s");
  }
  return text + format("; %s of memory for data\n",
                       format_bytes(static_cast<double>(feed.seen.memory)).c_str());
}

Json feed_json(const PlannedFeed& feed) {
  if (!feed.seen.failure.empty()) {
    return {{"data", feed.data}, {"not_measured", feed.seen.failure}};
  }
  const int needed = feed.threads_needed();
  return {{"data", feed.data},
          {"samples_per_second", feed.seen.rate.samples_per_second},
          {"threads", feed.seen.rate.threads},
          {"taken", feed.taken},
          {"suffices", feed.suffices()},
          {"threads_needed", needed == 0 ? Json() : Json(needed)},
          {"memory", feed.seen.memory}};
}

}  // namespace hetpipe
