// SPDX-License-Identifier: Apache-2.0
#include "partitioner/cost/gradient_bytes.h"

namespace hetpipe {

RunMaxima::RunMaxima(std::vector<std::int64_t> values)
    : count_(values.size()), runs_(std::move(values)) {
  for (std::size_t span = 1; 2 * span <= count_; span *= 2) {
    const std::size_t below = runs_.size() - count_;
    for (std::size_t l = 0; l < count_; ++l) {
      const std::size_t other = std::min(l + span, count_ - 1);
      runs_.push_back(std::max(runs_[below + l], runs_[below + other]));
    }
  }
}

GradientBytes::GradientBytes(const Profile& profile, const LayerCosts& costs)
    : layers_(profile.layers.size()), measured_(!costs.scratch_bytes.empty()) {
  std::vector<std::vector<int>> readers(layers_.size());
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    for (const int input : profile.layers[l].inputs) {
      readers[static_cast<std::size_t>(input)].push_back(static_cast<int>(l));
    }
  }
  const auto read_by_next_alone = [&](std::size_t l) {
    return readers[l].size() == 1 && readers[l].front() == static_cast<int>(l) + 1;
  };
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    Layer& layer = layers_[l];
    layer.output = costs.output_bytes[l];
    layer.scratch = measured_ ? costs.scratch_bytes[l] : 0;
    layer.apart = profile.layers[l].gradients_apart;
    layer.chained =
        l > 0 && read_by_next_alone(l - 1) && (readers[l].empty() || read_by_next_alone(l));
    for (const int input : profile.layers[l].inputs) {
      layer.inputs.push_back({input, costs.output_bytes[static_cast<std::size_t>(input)]});
    }
    std::size_t between = l + 1;
    for (const int reader : readers[l]) {
      for (; between < static_cast<std::size_t>(reader); ++between) {
        layers_[between].passing.push_back({static_cast<int>(l), layer.output, reader});
      }
      between = static_cast<std::size_t>(reader);
    }
  }
}

GradientBytes::OfLayer GradientBytes::of(int l, int first, int end) const {
  const Layer& layer = layers_[static_cast<std::size_t>(l)];
  std::int64_t beside = 0;
  for (const Tensor& tensor : layer.passing) {
    if (tensor.producer >= first && tensor.next_reader < end) beside += tensor.bytes;
  }
  std::int64_t made = 0;      // gradients of inputs, beside that of the output
  std::int64_t returned = 0;  // those that are messages
  for (const Tensor& input : layer.inputs) {
    if (input.producer < first) {
      returned += input.bytes;
    } else if (layer.apart) {
      made += input.bytes;
    }
  }
  const bool last = l + 1 == end;
  if (measured_) {
    const std::int64_t there = beside + made + layer.scratch;
    if (!last) return {.known = layer.output + there};
    return {.unknown = std::max(layer.output - (l == first ? returned : 0), there)};
  }
  const std::int64_t here = layer.output + std::min(layer.output, beside);
  if (!layer.chained || l == first) made = 0;
  if (last) return {.unknown = std::max(here, made)};
  return {made > 0 ? here + made : 0, here};
}

GradientPeaks::Most GradientPeaks::of_layer(int l, int first, int end) const {
  const auto at = static_cast<std::size_t>(l);
  const GradientBytes::OfLayer bytes = gradients_.of(l, first, end);
  Most most;
  if (bytes.known == 0 || !gradients_.measured()) most.unknown = bytes.unknown;
  if (bytes.known > 0) most.known = bytes.known + kept_[at + 1];
  if (parameters_[at] > 0) {
    most.adding = std::max(bytes.known, bytes.unknown) + parameters_[at] + kept_[at + 1];
  }
  return most;
}

GradientPeaks::Most GradientPeaks::one_by_one(int first, int end) const {
  Most most;
  for (int l = first + 1; l + 1 < end; ++l) most.raise(of_layer(l, first, end));
  return most;
}

namespace {

template <typename BytesOf>
RunMaxima by_layer(int layers, const BytesOf& bytes_of) {
  std::vector<std::int64_t> values;
  for (int l = 0; l < layers; ++l) values.push_back(bytes_of(l));
  return RunMaxima(std::move(values));
}

}  // namespace

GradientPeaks::GradientPeaks(const Profile& profile, const LayerCosts& costs,
                             std::vector<std::int64_t> kept, std::vector<std::int64_t> parameters)
    : gradients_(profile, costs),
      kept_(std::move(kept)),
      parameters_(std::move(parameters)),
      // As if it were neither the first nor the last, and no tensor came from or went elsewhere.
      unknown_(by_layer(gradients_.layers(),
                        [&](int l) { return of_layer(l, -1, gradients_.layers() + 1).unknown; })),
      known_(by_layer(gradients_.layers(),
                      [&](int l) { return of_layer(l, -1, gradients_.layers() + 1).known; })),
      adding_(by_layer(gradients_.layers(),
                       [&](int l) { return of_layer(l, -1, gradients_.layers() + 1).adding; })) {
  const int layers = gradients_.layers();
  for (int first = 0; first <= layers; ++first) {
    front_.push_back({first + 1});
    back_.push_back({first - 1});
  }
  const auto comes_from_before = [&](int l, int producer) {
    for (int first = producer + 1; first < l; ++first) {
      Edge& edge = front_[static_cast<std::size_t>(first)];
      edge.bound = std::max(edge.bound, l + 1);
    }
  };
  for (int l = 0; l < layers; ++l) {
    for (const GradientBytes::Tensor& input : gradients_.inputs(l)) {
      comes_from_before(l, input.producer);
    }
    for (const GradientBytes::Tensor& tensor : gradients_.passing(l)) {
      comes_from_before(l, tensor.producer);
      for (int end = l + 2; end <= tensor.next_reader; ++end) {
        Edge& edge = back_[static_cast<std::size_t>(end)];
        edge.bound = std::min(edge.bound, l);
      }
    }
  }
  for (int cut = 0; cut <= layers; ++cut) {
    Edge& front = front_[static_cast<std::size_t>(cut)];
    for (int l = cut + 1; l < front.bound; ++l) front.most.raise(of_layer(l, cut, layers + 1));
    Edge& back = back_[static_cast<std::size_t>(cut)];
    for (int l = back.bound; l + 1 < cut; ++l) back.most.raise(of_layer(l, -1, cut));
  }
}

}  // namespace hetpipe
