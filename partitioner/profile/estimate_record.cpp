// SPDX-License-Identifier: Apache-2.0
#include "partitioner/profile/estimate_record.h"

#include "base/text.h"
#include "partitioner/profile/estimated.h"

namespace hetpipe {

const EstimateRecord& record_of(const Measurement& estimate, std::string_view runtime) {
  if (estimate.estimate != kFromFlopsAndBytes) return kRelativeRecord;
  return runtime == "megatron-deepspeed" ? kMegatronRecord : kAbsoluteRecord;
}

std::string to_string(const EstimateRecord& record) {
  return format("expected error %.3g %%, the mean of %d %s; the worst %.3g %%", 100 * record.mean,
                record.compared, std::string(record.of).c_str(), 100 * record.worst);
}

}  // namespace hetpipe
