// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "kernels/cuda/context.h"
#include "runtime/model/model.h"

// What the zoo's models ask of cuDNN, planned for a described card.
namespace hetpipe::cuda {

// Every model of the zoo at the size it is usually trained at.
std::vector<Model> zoo_models();

struct PlannedGraph {
  std::string use;    // "vgg-19 conv1_1 forward": the first that needs it
  std::string layer;  // "convolution 3x3, 64 channels (32, 224, 224, 3)"
  std::shared_ptr<const Plan> plan;
};

// Plans graphs and lists each distinct plan once; a graph without a plan is put down in `failures`.
class ZooPlanner {
 public:
  ZooPlanner(Context& context, std::int64_t batch, Precision precision)
      : context_(context), batch_(batch), precision_(precision) {}

  void convolutions(const Model& model);
  void attentions(const Model& model);

  const std::vector<PlannedGraph>& planned() const { return planned_; }
  const std::vector<std::string>& failures() const { return failures_; }
  std::size_t largest_workspace() const;
  std::string table() const;

 private:
  using MakePlan = std::function<std::shared_ptr<const Plan>()>;
  void add(const Model& model, int layer, const char* direction, const MakePlan& make);

  Context& context_;
  std::int64_t batch_;
  Precision precision_;
  std::vector<PlannedGraph> planned_;
  std::vector<std::string> failures_;
  std::set<const Plan*> seen_;
};

}  // namespace hetpipe::cuda
