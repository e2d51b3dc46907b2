// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/layers/operand_gradients.h"

#include "base/error.h"
#include "kernels/reference/algebra.h"

namespace hetpipe::cuda {
namespace {

constexpr std::int64_t kLongList = 64;

}  // namespace

TensorReads tensor_reads(std::int64_t elements, const std::vector<const OperandView*>& views) {
  if (views.size() == 1 && views[0]->operand.table.empty() &&
      places_differ(views[0]->loops.all(), views[0]->operand.strides)) {
    return {.once = true, .all = views[0]->loops.elements() == elements};
  }
  std::vector<std::uint8_t> seen(static_cast<std::size_t>(elements), 0);
  TensorReads reads;
  std::int64_t count = 0;
  for (const OperandView* v : views) {
    for (const std::int64_t place : reference::places_of(v->operand, v->loops.all())) {
      std::uint8_t& here = seen[static_cast<std::size_t>(place)];
      reads.once = reads.once && here == 0;
      count += here == 0 ? 1 : 0;
      here = 1;
    }
  }
  reads.all = count == elements;
  return reads;
}

KeptReads::KeptReads(const LayerContext& context, std::int64_t elements,
                     const std::vector<const OperandView*>& views)
    : elements_(elements) {
  ensure(views.size() <= static_cast<std::size_t>(kMostReads), "few operands read one tensor");
  PackedArrays arrays;
  for (const OperandView* v : views) {
    const LoopNumbers places = reference::places_of(v->operand, v->loops.all());
    ensure(static_cast<std::int64_t>(places.size()) <= INT32_MAX,
           "a sample's view has fewer than 2^31 elements");
    std::vector<std::int32_t> starts(static_cast<std::size_t>(elements) + 1, 0);
    for (const std::int64_t p : places) ++starts[static_cast<std::size_t>(p) + 1];
    for (std::size_t e = 1; e < starts.size(); ++e) starts[e] += starts[e - 1];
    std::vector<std::int32_t> next(starts.begin(), starts.end() - 1), entries(places.size());
    for (std::size_t i = 0; i < places.size(); ++i) {
      entries[static_cast<std::size_t>(next[static_cast<std::size_t>(places[i])]++)] =
          static_cast<std::int32_t>(i);
    }
    starts_.push_back(arrays.add(starts));
    entries_.push_back(arrays.add(entries));
    others_.push_back(static_cast<std::int64_t>(places.size()));
    terms_ += others_.back();
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

std::int64_t chunk_of(std::int64_t samples, std::int64_t bytes_by_sample) {
  for (std::int64_t parts = 1; parts < samples; ++parts) {
    if (samples % parts == 0 && samples / parts * bytes_by_sample <= kChunkBytes) {
      return samples / parts;
    }
  }
  return 1;
}

}  // namespace hetpipe::cuda
