// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// Gates of recurrent layers (kernels/reference/recurrent.h), in the calling thread. In float, with
// the functions of kernels/pointwise_math.h. `before` may be null: zeros.
namespace hetpipe::loops {

void lstm_cell(std::int64_t hidden, float* gates, const float* before, float* cells, float* h);
void lstm_cell_gradient(std::int64_t hidden, const float* gates, const float* before,
                        const float* cells, const float* dh, float* dc, float* dgates);
void gru_cell(std::int64_t hidden, float* gates, const float* state, const float* before, float* h);
void gru_cell_gradient(std::int64_t hidden, const float* gates, const float* kept,
                       const float* before, float* dh, float* da, float* db);

}  // namespace hetpipe::loops
