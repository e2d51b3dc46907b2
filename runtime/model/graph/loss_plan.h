// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "runtime/model/graph/graph.h"
#include "runtime/model/graph/import.h"
#include "runtime/model/graph/importer.h"
#include "runtime/model/loss.h"

// What an exported network learns by, and what of its inputs are labels.
namespace hetpipe::graph {

// Terms of a sum, before they are a layer.
struct LossPlan {
  struct Term {
    float weight = 1;
    std::string value;                 // of the graph
    std::string loss = {};             // by name; kOwnLoss: the mean of the value
    int dim = 0;                       // of classes
    SoftmaxCrossEntropy classes = {};  // how they are learnt
    int labels = 0;                    // which of SampleFormat::labels
  };
  std::vector<Term> terms;
  SampleFormat samples;
  int classes = 0;  // of the first that predicts some
  std::vector<std::string> values() const {
    std::vector<std::string> all;
    for (const Term& term : terms) all.push_back(term.value);
    return all;
  }
};

// Leaves in the graph the inputs that the network reads: what only the loss reads are labels. May
// add nodes. UserError for a loss that the network, or an option that the loss, does not have.
LossPlan plan_loss(Graph& graph, const LossChoice& choice);

// The loss, as the last layer: all its values are lowered.
void add_loss(Importer& importer, const LossPlan& plan);

// What one sample is to the data: images (H, W, C), tokens (T); several inputs in a row.
Shape sample_of(const Graph& graph);

}  // namespace hetpipe::graph
