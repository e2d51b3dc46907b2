// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "runtime/data/dataset.h"
#include "runtime/data/prefetch.h"
#include "runtime/model/model.h"

// A data set as an evaluation reads it: in its own order, hidden tokens the same every time.
namespace hetpipe {

// Labels weigh as the model's loss weighs them.
void weigh_labels(Dataset& data, const Model& model);
// What the labels of a sample weigh on average over the whole data set; 0: as many as there are.
double mean_label_weight(const Dataset& data);

// Samples [first, first + count). label_weight: mean_label_weight(), so that losses add up to the
// data set's mean however it is cut into batches.
Batch assemble_test_batch(const Dataset& test, std::int64_t first, std::int64_t count,
                          std::int64_t number, double label_weight, const SampleMemory& memory,
                          int threads = 1);

}  // namespace hetpipe
