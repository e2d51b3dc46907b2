// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "kernels/layer.h"

// infer_shapes() of the layers of kernels/algebra.h. `layer` is its text, for messages.
namespace hetpipe {

LayerShapes shapes_of(const Pointwise& p, const std::string& layer, const std::vector<Shape>& in);
LayerShapes shapes_of(const Move& m, const std::string& layer, const std::vector<Shape>& in);
LayerShapes shapes_of(const Reduce& r, const std::string& layer, const std::vector<Shape>& in);
LayerShapes shapes_of(const Product& p, const std::string& layer, const std::vector<Shape>& in);
LayerShapes shapes_of(const Softmax& s, const std::string& layer, const std::vector<Shape>& in);
LayerShapes shapes_of(const CumulativeSum& c, const std::string& layer,
                      const std::vector<Shape>& in);
LayerShapes shapes_of(const Attention& a, const std::string& layer, const std::vector<Shape>& in);

}  // namespace hetpipe
