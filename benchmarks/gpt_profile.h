// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "partitioner/profile/profile.h"

// The profile of a GPT from its definition alone, a layer for each operation that
// Megatron-DeepSpeed launches: what estimates are compared with measured runs by. Attention's
// scores and its softmax are materialised; mask and softmax, bias and GELU, bias, dropout and
// residual are fused (Shoeybi et al., arXiv 1909.08053, and that runtime's code).
namespace hetpipe::bench {

struct Gpt {
  int layers = 0;
  int hidden = 0;
  int heads = 0;
  int sequence = 0;    // tokens of a sample
  int vocabulary = 0;  // padded
  int tensor = 1;      // GPUs that each product and attention's heads are split over
};

// Its layers in order: the embedding, kGptOperations for each transformer layer, and the last three
// (norm, logits, loss).
constexpr int kGptOperations = 13;
constexpr int kGptFirst = 1;
constexpr int kGptLast = 3;

class GptProfile {
 public:
  explicit GptProfile(const Gpt& gpt) : gpt_(gpt) {
    const double h = gpt.hidden;
    profile_.model = "gpt";
    // Table and positions; a lookup each, their sum, dropout.
    add({.name = "embedding",
         .parameters = vocabulary_parameters() + gpt.sequence * h,
         .reads = 4 * whole(),
         .writes = 4 * whole(),
         .output = tensor_,
         .operations = 4});
    for (int l = 0; l < gpt.layers; ++l) add_transformer_layer("h" + std::to_string(l) + ".");
    add({.name = "norm",
         .parameters = 2 * h,
         .reads = whole(),
         .writes = whole(),
         .output = tensor_});
    const double logits = static_cast<double>(gpt.sequence) * gpt.vocabulary;
    add({.name = "logits",
         .flops = 2 * logits * h,
         .parameters = vocabulary_parameters(),
         .reads = whole(),
         .writes = logits,
         .output = logits});
    profile_.layers.back().shares = "embedding";
    // Converted to fp32 (two elements each), less the largest, exponentials, their sum, quotients.
    add({.name = "loss", .reads = 8 * logits, .writes = 7 * logits, .output = 1, .operations = 8});
  }
  Profile take() { return std::move(profile_); }

 private:
  // In elements per sample, of all GPUs; parameters of each.
  struct Operation {
    std::string name;
    double flops = 0;
    double parameters = 0;
    double reads = 0;
    double writes = 0;
    double output = 0;
    int operations = 1;
    double all_reduced = 0;
    int also_reads = -1;  // a layer, beside the one before
  };

  // A tensor of activations that every GPU has, of all of them.
  double whole() const { return gpt_.tensor * tensor_; }
  double vocabulary_parameters() const {
    return static_cast<double>(gpt_.vocabulary) * gpt_.hidden / gpt_.tensor;
  }

  void add_transformer_layer(const std::string& in) {
    const double h = gpt_.hidden;
    const double t = gpt_.tensor;
    const double s = gpt_.sequence;
    const double x = tensor_;
    const double scores = gpt_.heads * s * s;
    int input = last();
    add({.name = in + "norm1",
         .parameters = 2 * h,
         .reads = whole(),
         .writes = whole(),
         .output = x});
    add({.name = in + "qkv",
         .flops = 6 * x * h,
         .parameters = 3 * h * (h + 1) / t,
         .reads = whole(),
         .writes = 3 * x,
         .output = 3 * x});
    add({.name = in + "scores",
         .flops = 2 * x * s,
         .reads = 2 * x,
         .writes = scores,
         .output = scores});
    add({.name = in + "softmax", .reads = scores, .writes = scores, .output = scores});
    // A mask of one byte, half an element of two.
    add({.name = in + "dropout", .reads = scores, .writes = 1.5 * scores, .output = scores});
    add({.name = in + "context",
         .flops = 2 * x * s,
         .reads = scores + x,
         .writes = x,
         .output = x});
    add({.name = in + "projection",
         .flops = 2 * x * h,
         .parameters = h * (h / t + 1),
         .reads = x,
         .writes = whole(),
         .output = x,
         .all_reduced = x});
    add({.name = in + "residual1",
         .reads = 2 * whole(),
         .writes = 1.5 * whole(),
         .output = x,
         .also_reads = input});
    input = last();
    add({.name = in + "norm2",
         .parameters = 2 * h,
         .reads = whole(),
         .writes = whole(),
         .output = x});
    add({.name = in + "fc1",
         .flops = 8 * x * h,
         .parameters = 4 * h * (h + 1) / t,
         .reads = whole(),
         .writes = 4 * x,
         .output = 4 * x});
    add({.name = in + "gelu", .reads = 4 * x, .writes = 4 * x, .output = 4 * x});
    add({.name = in + "fc2",
         .flops = 8 * x * h,
         .parameters = h * (4 * h / t + 1),
         .reads = 4 * x,
         .writes = whole(),
         .output = x,
         .all_reduced = x});
    add({.name = in + "residual2",
         .reads = 2 * whole(),
         .writes = 1.5 * whole(),
         .output = x,
         .also_reads = input});
  }

  int last() const { return static_cast<int>(profile_.layers.size()) - 1; }

  void add(const Operation& operation) {
    constexpr double kBytes = 4;  // fp32, as profiles state them
    ProfileLayer layer;
    layer.name = operation.name;
    if (last() >= 0) layer.inputs = {last()};
    if (operation.also_reads >= 0) layer.inputs.insert(layer.inputs.begin(), operation.also_reads);
    layer.parameter_bytes = std::llround(operation.parameters * kBytes);
    layer.forward_flops = operation.flops;
    // What it reads, and what it writes beside its output.
    layer.input_bytes = (operation.reads + operation.writes - operation.output) * kBytes;
    layer.output_bytes = operation.output * kBytes;
    layer.stash_bytes = operation.output * kBytes;
    layer.operations = operation.operations;
    layer.group_all_reduce_bytes = operation.all_reduced * kBytes;
    profile_.layers.push_back(std::move(layer));
  }

  const Gpt gpt_;
  const double tensor_ = static_cast<double>(gpt_.sequence) * gpt_.hidden;
  Profile profile_;
};

inline Profile gpt_profile(const Gpt& gpt) { return GptProfile(gpt).take(); }

}  // namespace hetpipe::bench
