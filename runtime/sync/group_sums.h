// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "kernels/buffer.h"
#include "runtime/pipeline/synchronizer.h"
#include "runtime/sync/gradient_exchange.h"

namespace hetpipe {

// What one rank sums with others (exchange_parts.h).
struct RankSums {
  std::vector<ExchangePart> gradients;
  std::vector<ExchangePart> statistics;
  std::vector<MeanFactor> factors;  // of the statistics
};

// A rank's sums of gradients, and means of running statistics, over one scope.
class GroupSums {
 public:
  GroupSums(RankSums sums, DeviceTransport& transport, RankService& service);

  void reduce(Minibatch p, Buffer& gradient) { exchange_.start(p, gradient.as<float>()); }
  double finish_reduce() { return exchange_.wait(); }

  // mean = factor_0 * s_0; mean += factor_1 * s_1; ... in the group's order, in place: float, each
  // product rounded by itself. Waits. All members call this equally often, in the same order with
  // reduce.
  void average(std::vector<float>& statistics);

  SumTraffic traffic() const { return {exchange_.bytes_sent(), exchange_.messages_sent()}; }

 private:
  RankSums sums_;
  Device& device_;
  Stream& stream_;
  RankService& service_;
  std::int64_t means_ = 0;  // so far
  GradientExchange exchange_;
};

}  // namespace hetpipe
