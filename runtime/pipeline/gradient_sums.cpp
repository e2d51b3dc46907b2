// SPDX-License-Identifier: Apache-2.0
#include "runtime/pipeline/gradient_sums.h"

#include "base/index.h"

namespace hetpipe {

GradientSums::Place GradientSums::next(int chunk) {
  std::int64_t own = 0;  // of all chunks
  std::int64_t own_before = 0, uses_before = 0, uses = 0;
  for (std::size_t c = 0; c < chunks_.size(); ++c) {
    if (static_cast<int>(c) == chunk) {
      own_before = own;
      uses_before = uses;
    }
    own += chunks_[c]->parameters().count();
    uses += chunks_[c]->parameters().use_count();
  }
  if (begun_.empty()) {
    own_ = Buffer(chunks_.front()->device(), chunks_.front()->stream(),
                  static_cast<std::size_t>(own) * sizeof(float), MemoryKind::gradients);
    uses_ = memory_of_uses_();
    begun_.assign(chunks_.size(), false);
  }
  const bool first = !begun_[at(chunk)];
  begun_[at(chunk)] = true;
  float* const uses_here = uses_ ? uses_->as<float>() + uses_before : nullptr;
  return {{own_.as<float>() + own_before, uses_here},
          first ? Gradients::overwrite : Gradients::accumulate};
}

Buffer GradientSums::take() {
  begun_.clear();
  uses_.reset();
  return std::move(own_);
}

}  // namespace hetpipe
