// SPDX-License-Identifier: Apache-2.0
#include "partitioner/cost/gradient_peaks.h"

#include <utility>

namespace hetpipe {
namespace {

std::size_t at_layer(int l) { return static_cast<std::size_t>(l); }

RunMaxima maxima_of(std::span<const GradientPeaks::Most> layers,
                    std::int64_t GradientPeaks::Most::*member) {
  std::vector<std::int64_t> values;
  values.reserve(layers.size());
  for (const GradientPeaks::Most& most : layers) values.push_back(most.*member);
  return RunMaxima(std::move(values));
}

}  // namespace

GradientPeaks::Runs::Runs(std::span<const Most> layers)
    : unknown_(maxima_of(layers, &Most::unknown)),
      known_(maxima_of(layers, &Most::known)),
      adding_(maxima_of(layers, &Most::adding)) {}

GradientPeaks::Most GradientPeaks::of_layer(int l, int first, int end) const {
  const auto at = at_layer(l);
  const GradientBytes::OfLayer bytes = gradients_.of(l, first, end);
  Most most;
  if (bytes.known == 0 || !gradients_.measured()) most.unknown = bytes.unknown;
  if (bytes.known > 0) most.known = bytes.known + kept_[at + 1];
  if (parameters_[at] > 0) {
    most.adding = std::max(bytes.known, bytes.unknown) + parameters_[at] + kept_[at + 1];
  }
  return most;
}

GradientPeaks::GradientPeaks(const Profile& profile, const LayerCosts& costs,
                             std::vector<std::int64_t> kept, std::vector<std::int64_t> parameters)
    : gradients_(profile, costs), kept_(std::move(kept)), parameters_(std::move(parameters)) {
  const int layers = gradients_.layers();
  bypasses_.assign(at_layer(layers), false);
  reads_afar_.assign(at_layer(layers), false);
  std::vector<Most> inside;
  inside.reserve(at_layer(layers));
  for (int l = 0; l < layers; ++l) {
    for (const GradientBytes::Tensor& tensor : gradients_.passing(l)) {
      bypasses_[at_layer(tensor.producer)] = true;
      reads_afar_[at_layer(tensor.next_reader)] = true;
    }
    inside.push_back(of_layer(l, -1, layers + 1));
    first_.push_back(of_layer(l, l, layers + 1));
    Last last{l - 1};  // alone it is a stage of its own kind
    for (const GradientBytes::Tensor& input : gradients_.inputs(l)) {
      last.first_input = std::min(last.first_input, input.producer);
    }
    last.most = of_layer(l, -1, l + 1);
    last_.push_back(last);
  }
  inside_ = Runs(inside);
  back_ = backs(-1, layers);
  back_.insert(back_.begin(), Edge{-1});
  last_end_.assign(at_layer(layers), 0);
  for (int end = 1; end <= layers; ++end) last_end_[at_layer(back_[at_layer(end)].bound)] = end;
  for (std::size_t l = 1; l < last_end_.size(); ++l) {
    last_end_[l] = std::max(last_end_[l], last_end_[l - 1]);
  }
  const std::vector<int> bounds = front_bounds();
  for (int first = 0; first < layers; ++first) {
    const int bound = bounds[at_layer(first)];
    if (first == 0 || bypasses_[at_layer(first - 1)]) add_beginning(first, bound);
    begins_like_.push_back(beginnings_.size() - 1);
    Edge front{bound, first_[at_layer(first)]};
    const Beginning& of = beginnings_.back();
    if (first + 1 < bound) {
      front.most.raise(of.runs.of(first - of.first, bound - of.first - 1));
    }
    front_.push_back(front);
  }
}

// Of stages that begin at each layer: one past the last layer that tensors from before it reach or
// bypass.
std::vector<int> GradientPeaks::front_bounds() const {
  const int layers = gradients_.layers();
  std::vector<int> reached(at_layer(layers), 0);  // [producer]
  for (int l = 0; l < layers; ++l) {
    for (const auto tensors : {gradients_.inputs(l), gradients_.passing(l)}) {
      for (const auto& tensor : tensors) reached[at_layer(tensor.producer)] = l + 1;
    }
  }
  std::vector<int> bounds;
  int farthest = 0;
  for (int first = 0; first < layers; ++first) {
    bounds.push_back(std::max(first + 1, farthest));
    farthest = std::max(farthest, reached[at_layer(first)]);
  }
  return bounds;
}

void GradientPeaks::add_beginning(int first, int bound) {
  Beginning beginning{first, bound};
  if (bound > first + 1) {
    std::vector<Most> most;
    for (int l = first + 1; l < bound; ++l) {
      most.push_back(of_layer(l, first, gradients_.layers() + 1));
    }
    beginning.runs = Runs(most);
    beginning.backs = backs(first, last_end_[at_layer(bound - 1)]);
  }
  beginnings_.push_back(std::move(beginning));
}

// Of stages that begin like `first` and end at first + 2 ... last_end.
std::vector<GradientPeaks::Edge> GradientPeaks::backs(int first, int last_end) const {
  std::vector<Edge> edges;
  if (last_end < first + 2) return edges;
  // By reader, those at the last end and behind it as one: the first layer that is bypassed.
  std::vector<int> bypassed(at_layer(last_end - first + 1), last_end);
  for (int l = std::max(0, first); l + 1 < last_end; ++l) {
    for (const GradientBytes::Tensor& tensor : gradients_.passing(l)) {
      if (tensor.producer < first) continue;
      int& at = bypassed[at_layer(std::min(tensor.next_reader, last_end) - first)];
      at = std::min(at, l);
    }
  }
  for (std::size_t end = bypassed.size() - 1; end-- > 0;) {
    bypassed[end] = std::min(bypassed[end], bypassed[end + 1]);
  }
  for (int end = first + 2; end <= last_end; ++end) {
    Edge edge{std::min(end - 1, bypassed[at_layer(end - first)])};
    int from = edge.bound;
    // With one more layer the others stay as they were, unless it is the first end behind a reader.
    if (!edges.empty() && !reads_afar_[at_layer(end - 1)]) {
      edge.most = edges.back().most;
      from = std::max(from, end - 2);
    }
    for (int l = from; l + 1 < end; ++l) edge.most.raise(of_layer(l, first, end));
    edges.push_back(edge);
  }
  return edges;
}

// Where the edges overlap, layers before the back edge belong to the front edge: a tensor from
// before the stage that bypasses one of the layers in between goes on behind it.
GradientPeaks::Most GradientPeaks::of_both_ends(int first, int end) const {
  const Beginning& beginning = beginnings_[begins_like_[at_layer(first)]];
  const Edge& back = beginning.backs[at_layer(end - beginning.first - 2)];
  Most most = first_[at_layer(first)];
  most.raise(back.most);
  if (first + 1 < back.bound) {
    most.raise(beginning.runs.of(first - beginning.first, back.bound - beginning.first - 1));
  }
  return most;
}

}  // namespace hetpipe
