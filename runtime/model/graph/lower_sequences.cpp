// SPDX-License-Identifier: Apache-2.0
// LSTM and GRU.
#include <algorithm>
#include <numeric>

#include "base/index.h"
#include "base/text.h"
#include "runtime/model/graph/lower_parts.h"

namespace hetpipe::graph {
namespace {

// The layers and directions of PyTorch's LSTM or GRU, one after another.
void recurrent(Importer& importer, const Node& node) {
  const Attributes attributes = importer.attributes(node);
  const bool biases = attributes.flag("has_biases", true);
  const bool both = attributes.flag("bidirectional", false);
  const std::int64_t layers = attributes.integer("num_layers", 1);
  const auto rate = static_cast<float>(attributes.number("dropout", 0));
  if (node.inputs.count("hx") != 0 && !node.inputs.at("hx").empty()) {
    throw Unsupported("an initial state that is not zero");
  }
  const std::vector<std::string>& names = node.inputs.at("params");
  const std::size_t each = biases ? 4 : 2;
  Tensor x = importer.input(node, "input");
  if (!attributes.flag("batch_first", false)) permute(x, {1, 0, 2});
  const std::int64_t steps = x.shape[1].number;
  std::vector<Tensor> last;  // hidden states at the end, of each layer and direction
  std::size_t next = 0;
  for (std::int64_t l = 0; l < layers; ++l) {
    const Dense in = importer.lay_out(node, x, {1, 2});
    const std::int64_t features = x.shape[2].number;
    std::vector<Tensor> directions;
    for (int direction = 0; direction < (both ? 2 : 1); ++direction) {
      const std::vector<std::string> of(names.begin() + static_cast<std::ptrdiff_t>(next),
                                        names.begin() + static_cast<std::ptrdiff_t>(next + each));
      next += each;
      const State* const hidden_weight = importer.state_of(of[1]);
      if (hidden_weight == nullptr) throw Unsupported("weights that are computed");
      Recurrent r;
      r.kind = node.op == "gru" ? Recurrent::Kind::gru : Recurrent::Kind::lstm;
      r.hidden = static_cast<int>(hidden_weight->shape[1]);
      if (of.size() > 4) throw Unsupported("projections of an LSTM");
      r.bias = biases;
      r.reverse = direction == 1;
      const int layer = importer.add(node, r, {in}, {Shape{in.rows, steps, features}}, of);
      const TensorShape shape{x.shape[0], x.shape[1], {r.hidden, false}};
      directions.push_back(importer.output(layer, in, {1, 2}, {steps, r.hidden}, shape));
      Tensor end = directions.back();
      if (!slice(end, 1, r.reverse ? 0 : steps - 1, 1, 1)) throw Unsupported("its last state");
      remove_dimension(end, 1);
      last.push_back(std::move(end));
    }
    x = directions[0];
    if (both) {
      Move joined;
      const std::int64_t hidden = x.shape[2].number;
      joined.output = {in.rows * steps, 2 * hidden};
      std::vector<int> inputs;
      for (int d = 0; d < 2; ++d) {
        inputs.push_back(directions[at(d)].leaves[0].layer);
        joined.pieces.push_back({{in.rows * steps, hidden},
                                 {Source::input, d, 0, {hidden, 1}},
                                 d * hidden,
                                 {2 * hidden, 1}});
      }
      const int layer = importer.add(node, joined, inputs, {});
      x = importer.output(layer, in, {1, 2}, {steps, 2 * hidden},
                          {x.shape[0], x.shape[1], {2 * hidden, false}});
    }
    if (rate > 0 && l + 1 < layers) {
      const Dense dense = importer.lay_out(node, x, {});
      const int layer = importer.add(node, Dropout{rate}, {dense}, {all_of_sample(dense)});
      x = importer.output(layer, dense, {}, {}, x.shape);
    }
  }
  if (!attributes.flag("batch_first", false)) permute(x, {1, 0, 2});
  importer.result(node, x, 0);
  // (layers * directions, N, hidden): of one alone a view.
  if (last.size() == 1) {
    insert_dimension(last[0], 0);
    importer.result(node, last[0], 1);
  } else {
    for (Tensor& state : last) insert_dimension(state, 0);
    importer.result(node, side_by_side(importer, node, last, 0, node.shapes[1]), 1);
  }
}

}  // namespace

std::vector<LoweringRow> sequence_lowerings() { return {{"lstm", recurrent}, {"gru", recurrent}}; }

}  // namespace hetpipe::graph
