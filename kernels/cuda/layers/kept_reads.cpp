// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/layers/kept_reads.h"

#include "base/error.h"

namespace hetpipe::cuda {
namespace {

constexpr std::int64_t kLongList = 64;  // terms of an element, on average

}  // namespace

KeptReads::KeptReads(const LayerContext& context, std::int64_t elements,
                     const std::vector<ReadTerms>& terms)
    : elements_(elements) {
  ensure(terms.size() <= static_cast<std::size_t>(kMostReads), "few operands read one tensor");
  PackedArrays arrays;
  for (const ReadTerms& t : terms) {
    ensure(static_cast<std::int64_t>(t.elements.size()) <= INT32_MAX && t.others <= INT32_MAX,
           "a sample's view has fewer than 2^31 elements");
    std::vector<std::int32_t> starts(static_cast<std::size_t>(elements) + 1, 0);
    for (const std::int64_t e : t.elements) ++starts[static_cast<std::size_t>(e) + 1];
    for (std::size_t e = 1; e < starts.size(); ++e) starts[e] += starts[e - 1];
    std::vector<std::int32_t> next(starts.begin(), starts.end() - 1), entries(t.elements.size());
    for (std::size_t i = 0; i < t.elements.size(); ++i) {
      std::int32_t& at = next[static_cast<std::size_t>(t.elements[i])];
      entries[static_cast<std::size_t>(at++)] =
          static_cast<std::int32_t>(t.places.empty() ? static_cast<std::int64_t>(i) : t.places[i]);
    }
    starts_.push_back(arrays.add(starts));
    entries_.push_back(arrays.add(entries));
    others_.push_back(t.others);
    terms_ += static_cast<std::int64_t>(t.elements.size());
  }
  arrays_ = KeptArrays(context, arrays);
}

Reads KeptReads::reads(const std::vector<const void*>& values, const std::vector<bool>& floats,
                       std::int64_t samples) const {
  Reads reads;
  for (std::size_t p = 0; p < starts_.size(); ++p) {
    reads.parts[p] = {arrays_.at<std::int32_t>(starts_[p]), arrays_.at<std::int32_t>(entries_[p]),
                      values[p], floats[p], others_[p]};
  }
  reads.count = static_cast<int>(starts_.size());
  reads.elements = elements_;
  reads.many = samples * terms_ >= kLongList * elements_;
  return reads;
}

}  // namespace hetpipe::cuda
