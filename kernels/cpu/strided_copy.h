// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/strided_loops.h"

namespace hetpipe {

// Copies a tensor from strides to strides: by lines where both lie in order, by tiles where another
// loop is in order there than here. Places written must differ, so that the loops may run in any
// order.
class StridedCopy {
 public:
  StridedCopy() = default;
  StridedCopy(const LoopNumbers& extents, const LoopNumbers& to, const LoopNumbers& from);
  void run(int threads, float* to, const float* from) const;

 private:
  enum class Kind : std::uint8_t { lines, tiles, strides };
  void lines(int threads, float* to, const float* from) const;
  void tiles(int threads, float* to, const float* from) const;

  Kind kind_ = Kind::lines;
  StridedLoops loops_;              // lanes: to, from; those outside of the tiles
  std::int64_t rows_ = 1;           // of a plane: in order in `from`
  std::int64_t columns_ = 1;        // in order in `to`
  std::int64_t row_stride_ = 0;     // of `to`, from row to row
  std::int64_t column_stride_ = 0;  // of `from`
};

}  // namespace hetpipe
