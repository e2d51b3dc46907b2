// SPDX-License-Identifier: Apache-2.0
#include "runtime/sync/group_sums.h"

namespace hetpipe {

GroupSums::GroupSums(RankSums sums, DeviceTransport& transport, RankService& service)
    : sums_(std::move(sums)),
      device_(transport.device()),
      stream_(transport.stream()),
      service_(service),
      exchange_(sums_.gradients, transport, service) {}

void GroupSums::average(std::vector<float>& statistics) {
  if (statistics.empty() || sums_.statistics.empty()) return;  // nobody else has any of them
  exchange_.wait();
  Buffer values(device_, stream_, statistics.size() * sizeof(float), MemoryKind::workspace);
  auto* host = reinterpret_cast<std::byte*>(statistics.data());
  device_.copy(stream_, values.data(), host, values.bytes());
  for (const MeanFactor& of : sums_.factors) {
    if (of.factor == 1 || of.range.count == 0) continue;
    device_.scale(stream_, values.as<float>() + of.range.offset, of.factor, of.range.count);
  }
  exchange_.start(means_++, values.as<float>(), sums_.statistics);
  exchange_.wait();
  device_.copy(stream_, host, values.data(), values.bytes());
  service_.settle(stream_, [] { return std::string("averaged running statistics"); });
}

}  // namespace hetpipe
