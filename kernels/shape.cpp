// SPDX-License-Identifier: Apache-2.0
#include "kernels/shape.h"

#include <vector>

#include "base/fields_json.h"

namespace hetpipe {

Json to_json(const Shape& shape) {
  std::vector<std::int64_t> extents;
  for (int i = 0; i < shape.rank(); ++i) extents.push_back(shape[i]);
  return extents;
}

void from_json(const Json& json, Shape& shape) {
  const auto extents = from_json<std::vector<std::int64_t>>(json);
  if (extents.size() > Shape::kMaxRank) throw JsonError(json.dump() + " is not a shape");
  shape = Shape(extents);
}

}  // namespace hetpipe
