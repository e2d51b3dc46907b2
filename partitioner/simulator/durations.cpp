// SPDX-License-Identifier: Apache-2.0
#include "partitioner/simulator/durations.h"

#include <algorithm>
#include <tuple>

#include "base/error.h"
#include "base/text.h"

namespace hetpipe {
namespace {

auto key_of(const Duration& row) {
  return std::tuple(row.where, row.minibatch, row.micro, row.what);
}

}  // namespace

std::string_view to_string(Timed what) {
  switch (what) {
    case Timed::forward:
      return "F";
    case Timed::backward:
      return "B";
    case Timed::weight_gradient:
      return "W";
    case Timed::recompute:
      return "R";
    case Timed::update:
      return "U";
    case Timed::activations:
      return "activations";
    case Timed::gradients:
      return "gradients";
    case Timed::sum:
      return "sum";
    case Timed::snapshot:
      break;
  }
  return "snapshot";
}

std::string to_string(const RecordedPlace& where) {
  return format("virtual worker %d, stage %d, replica %d", where.virtual_worker, where.stage,
                where.replica);
}

Durations::Durations(std::vector<Duration> rows, std::string file, std::size_t rest)
    : rows_(std::move(rows)), file_(std::move(file)), rest_(rest) {
  std::stable_sort(rows_.begin(), rows_.end(),
                   [](const Duration& a, const Duration& b) { return key_of(a) < key_of(b); });
  ensure(std::adjacent_find(rows_.begin(), rows_.end(),
                            [](const Duration& a, const Duration& b) {
                              return key_of(a) == key_of(b);
                            }) == rows_.end(),
         "an action takes one time");
  if (rows_.empty()) return;
  first_ = rows_.front().minibatch;
  for (const Duration& row : rows_) {
    first_ = std::min(first_, row.minibatch);
    end_ = std::max(end_, row.minibatch + 1);
  }
}

Minibatch Durations::minibatches_of(int virtual_worker) const {
  Minibatch end = first_;
  for (const Duration& row : rows_) {
    if (row.where.virtual_worker == virtual_worker) end = std::max(end, row.minibatch + 1);
  }
  return end - first_;
}

bool Durations::has(Timed what) const {
  return std::any_of(rows_.begin(), rows_.end(),
                     [what](const Duration& row) { return row.what == what; });
}

const Duration* Durations::find(Timed what, const RecordedPlace& where, Minibatch minibatch,
                                int micro) const {
  const auto key = std::tuple(where, minibatch, micro, what);
  const auto found =
      std::lower_bound(rows_.begin(), rows_.end(), key,
                       [](const Duration& row, const auto& k) { return key_of(row) < k; });
  return found != rows_.end() && key_of(*found) == key ? &*found : nullptr;
}

std::optional<double> Durations::median(Timed what, const RecordedPlace& where) const {
  std::vector<double> all;
  for (const Duration& row : rows_) {
    if (row.what == what && row.where == where) all.push_back(row.seconds);
  }
  if (all.empty()) return std::nullopt;
  const auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
  std::nth_element(all.begin(), middle, all.end());
  return *middle;
}

std::string to_csv(const Durations& durations) {
  std::string text = "virtual worker,stage,replica,minibatch,micro-batch,kind,seconds\n";
  for (const Duration& row : durations.rows()) {
    text += format("%d,%d,%d,%lld,%d,%s,%.9f\n", row.where.virtual_worker, row.where.stage,
                   row.where.replica, static_cast<long long>(row.minibatch), row.micro,
                   std::string(to_string(row.what)).c_str(), row.seconds);
  }
  return text;
}

}  // namespace hetpipe
