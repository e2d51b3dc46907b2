// SPDX-License-Identifier: Apache-2.0
#include "runtime/pipeline/gradient_sums.h"

#include "base/index.h"

namespace hetpipe {

GradientSums::Place GradientSums::next(int chunk) {
  std::int64_t own = 0, uses = 0;  // of all chunks, and before this one
  std::int64_t own_before = 0, uses_before = 0;
  for (std::size_t c = 0; c < chunks_.size(); ++c) {
    if (static_cast<int>(c) == chunk) {
      own_before = own;
      uses_before = uses;
    }
    own += chunks_[c]->parameters().count();
    uses += chunks_[c]->parameters().use_count();
  }
  if (begun_.empty()) {
    const auto make = [&](std::int64_t count) {
      return Buffer(chunks_.front()->device(), chunks_.front()->stream(),
                    static_cast<std::size_t>(count) * sizeof(float), MemoryKind::gradients);
    };
    own_ = make(own);
    uses_ = make(uses);
    begun_.assign(chunks_.size(), false);
  }
  const bool first = !begun_[at(chunk)];
  begun_[at(chunk)] = true;
  return {{own_.as<float>() + own_before, uses_.as<float>() + uses_before},
          first ? Gradients::overwrite : Gradients::accumulate};
}

Buffer GradientSums::take() {
  begun_.clear();
  return std::move(own_);
}

}  // namespace hetpipe
