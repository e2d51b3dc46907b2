// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <vector>

// Nested loops over tensors that are seen through strides, in as few loops as they can be written.
namespace hetpipe {

using LoopNumbers = std::vector<std::int64_t>;

// Each lane is a sum i_j * strides[j] that is followed through the loops.
struct StridedLoops {
  LoopNumbers extents;
  std::vector<LoopNumbers> strides;  // of each lane, by loop

  std::int64_t run() const { return extents.back(); }  // the innermost loop
  std::int64_t runs() const {
    std::int64_t n = 1;
    for (std::size_t i = 0; i + 1 < extents.size(); ++i) n *= extents[i];
    return n;
  }
  std::int64_t elements() const { return runs() * run(); }
  std::int64_t inner_stride(std::size_t lane) const { return strides[lane].back(); }
  // Whether a lane counts the elements one by one.
  bool plain(std::size_t lane) const {
    std::int64_t stride = 1;
    for (std::size_t i = extents.size(); i-- > 0;) {
      if (strides[lane][i] != stride && extents[i] > 1) return false;
      stride *= extents[i];
    }
    return true;
  }
};

// Loops of one extent vanish; two neighbours that every lane walks through as one become one. At
// least one loop is left.
inline StridedLoops merged_loops(const LoopNumbers& extents,
                                 const std::vector<LoopNumbers>& strides) {
  StridedLoops m;
  m.strides.resize(strides.size());
  for (std::size_t j = 0; j < extents.size(); ++j) {
    if (extents[j] == 1) continue;
    bool joins = !m.extents.empty();
    for (std::size_t l = 0; l < strides.size() && joins; ++l) {
      joins = m.strides[l].back() == strides[l][j] * extents[j];
    }
    if (joins) {
      m.extents.back() *= extents[j];
      for (std::size_t l = 0; l < strides.size(); ++l) m.strides[l].back() = strides[l][j];
    } else {
      m.extents.push_back(extents[j]);
      for (std::size_t l = 0; l < strides.size(); ++l) m.strides[l].push_back(strides[l][j]);
    }
  }
  if (m.extents.empty()) {
    m.extents.push_back(1);
    for (LoopNumbers& s : m.strides) s.push_back(0);
  }
  return m;
}

// Whether no two places of the loops are one; may say false where it is hard to see.
inline bool places_differ(const LoopNumbers& extents, const LoopNumbers& strides) {
  std::vector<std::pair<std::int64_t, std::int64_t>> loops;
  for (std::size_t j = 0; j < extents.size(); ++j) {
    if (extents[j] > 1) loops.emplace_back(std::abs(strides[j]), extents[j]);
  }
  std::sort(loops.begin(), loops.end());
  std::int64_t reach = 0;
  for (const auto& [stride, extent] : loops) {
    if (stride <= reach) return false;
    reach += stride * (extent - 1);
  }
  return true;
}

// Walks through the runs: the lanes' places at the start of each.
class LoopWalker {
 public:
  LoopWalker(const StridedLoops& loops, std::int64_t run)
      : loops_(loops), index_(loops.extents.size()), places_(loops.strides.size(), 0) {
    for (std::size_t j = loops.extents.size() - 1; j-- > 0;) {
      index_[j] = run % loops.extents[j];
      run /= loops.extents[j];
      for (std::size_t l = 0; l < places_.size(); ++l)
        places_[l] += index_[j] * loops.strides[l][j];
    }
  }
  const std::int64_t* places() const { return places_.data(); }
  void next() {
    for (std::size_t j = loops_.extents.size() - 1; j-- > 0;) {
      for (std::size_t l = 0; l < places_.size(); ++l) places_[l] += loops_.strides[l][j];
      if (++index_[j] < loops_.extents[j]) return;
      for (std::size_t l = 0; l < places_.size(); ++l) {
        places_[l] -= loops_.extents[j] * loops_.strides[l][j];
      }
      index_[j] = 0;
    }
  }

 private:
  const StridedLoops& loops_;
  LoopNumbers index_, places_;
};

}  // namespace hetpipe
