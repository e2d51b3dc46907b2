// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <tuple>
#include <vector>

#include "kernels/cuda/blas/linear_products.h"
#include "kernels/reference/convolution.h"
#include "kernels/reference/linear.h"

// column_major() against brute force: a product computed column by column as the library would, in
// the very memory in which ours lies row by row.
namespace hetpipe::cuda {
namespace matrix_layout_test {

using Memory = std::vector<double>;

// As cublasLtMatmul is documented.
void multiply(const ColumnMajorProduct& p, std::int64_t batch, const Memory& first,
              const Memory& second, Memory& result) {
  const auto at = [](const Memory& memory, const ColumnMajor& matrix, std::int64_t number,
                     std::int64_t row, std::int64_t column, bool transposed) {
    if (transposed) std::swap(row, column);
    EXPECT_LT(row, matrix.rows);
    EXPECT_LT(column, matrix.columns);
    EXPECT_GE(matrix.step, matrix.rows);
    return memory.at(static_cast<std::size_t>(number * matrix.batch + column * matrix.step + row));
  };
  ASSERT_EQ(p.result.rows, p.m);
  ASSERT_EQ(p.result.columns, p.n);
  for (std::int64_t b = 0; b < batch; ++b)
    for (std::int64_t j = 0; j < p.n; ++j)
      for (std::int64_t i = 0; i < p.m; ++i) {
        double sum = 0;
        for (std::int64_t l = 0; l < p.k; ++l)
          sum += at(first, p.first, b, i, l, p.transpose_first) *
                 at(second, p.second, b, l, j, p.transpose_second);
        result.at(static_cast<std::size_t>(b * p.result.batch + j * p.result.step + i)) = sum;
      }
}

class MatrixLayout : public testing::TestWithParam<std::tuple<bool, bool, int, int>> {};

TEST_P(MatrixLayout, IsTheProductRowByRow) {
  const auto [transposed_a, transposed_b, slack, batch] = GetParam();
  for (const auto& [rows, columns, inner] :
       std::vector<std::array<std::int64_t, 3>>{{3, 4, 5}, {1, 7, 2}, {6, 1, 3}, {2, 5, 1}}) {
    Product p{.rows = rows,
              .columns = columns,
              .inner = inner,
              .transposed_a = transposed_a,
              .transposed_b = transposed_b,
              .batch = batch};
    const std::int64_t a_rows = transposed_a ? inner : rows,
                       a_columns = transposed_a ? rows : inner;
    const std::int64_t b_rows = transposed_b ? columns : inner,
                       b_columns = transposed_b ? inner : columns;
    if (slack > 0) {
      p.step_a = a_columns + slack;
      p.step_b = b_columns + 2 * slack;
      p.step_c = columns + 3 * slack;
    }
    const std::int64_t step_a = slack > 0 ? p.step_a : a_columns,
                       step_b = slack > 0 ? p.step_b : b_columns,
                       step_c = slack > 0 ? p.step_c : columns;
    p.batch_a = a_rows * step_a + 1;
    p.batch_b = b_rows * step_b + 2;
    p.batch_c = rows * step_c + 3;

    const double poison = std::numeric_limits<double>::quiet_NaN();
    Memory a(static_cast<std::size_t>(batch * p.batch_a), poison);
    Memory b(static_cast<std::size_t>(batch * p.batch_b), poison);
    Memory c(static_cast<std::size_t>(batch * p.batch_c), -1), expected = c;
    double next = 1;
    for (std::int64_t n = 0; n < batch; ++n) {
      for (std::int64_t i = 0; i < a_rows; ++i)
        for (std::int64_t j = 0; j < a_columns; ++j)
          a[static_cast<std::size_t>(n * p.batch_a + i * step_a + j)] = next++;
      for (std::int64_t i = 0; i < b_rows; ++i)
        for (std::int64_t j = 0; j < b_columns; ++j)
          b[static_cast<std::size_t>(n * p.batch_b + i * step_b + j)] = next++;
      for (std::int64_t i = 0; i < rows; ++i)
        for (std::int64_t j = 0; j < columns; ++j) {
          double sum = 0;
          for (std::int64_t l = 0; l < inner; ++l)
            sum += a[static_cast<std::size_t>(n * p.batch_a +
                                              (transposed_a ? l * step_a + i : i * step_a + l))] *
                   b[static_cast<std::size_t>(n * p.batch_b +
                                              (transposed_b ? j * step_b + l : l * step_b + j))];
          expected[static_cast<std::size_t>(n * p.batch_c + i * step_c + j)] = sum;
        }
    }
    multiply(column_major(p), batch, b, a, c);  // the library's first factor is our second
    EXPECT_EQ(c, expected) << rows << " " << columns << " " << inner;
  }
}

INSTANTIATE_TEST_SUITE_P(AllForms, MatrixLayout,
                         testing::Combine(testing::Bool(), testing::Bool(),
                                          testing::Values(0, 1, 5), testing::Values(1, 3)));

// The three products of a linear layer, through the same arithmetic, against its definition.
class LinearProducts : public testing::TestWithParam<bool> {};

TEST_P(LinearProducts, AreTheDefinition) {
  const std::int64_t rows = 5, in = 3, out = 4;
  const Linear spec{.output_features = out, .transposed = GetParam()};
  const reference::LinearSizes sizes{rows, in, out, GetParam()};
  const auto numbers = [](std::int64_t count, double first) {
    Memory memory(static_cast<std::size_t>(count));
    for (double& value : memory) value = first++;
    return memory;
  };
  const Memory x = numbers(rows * in, 1), weight = numbers(in * out, -5),
               dy = numbers(rows * out, 100);
  Memory y(dy.size()), dx(x.size()), dweight(weight.size()), dbias(out);
  Memory expected_y = y, expected_dx = dx, expected_dweight = dweight, expected_dbias = dbias;
  reference::linear_forward<double>(sizes, x.data(), weight.data(), nullptr, expected_y.data());
  reference::linear_input_gradient(sizes, dy.data(), weight.data(), expected_dx.data());
  reference::linear_weight_gradient(sizes, x.data(), dy.data(), expected_dweight.data());
  reference::bias_gradient(rows, out, dy.data(), expected_dbias.data());

  multiply(column_major(linear_forward(spec, rows, in)), 1, weight, x, y);
  EXPECT_EQ(y, expected_y);
  multiply(column_major(linear_input_gradient(spec, rows, in)), 1, weight, dy, dx);
  EXPECT_EQ(dx, expected_dx);
  const ColumnMajorProduct p = column_major(linear_weight_gradient(spec, rows, in));
  multiply(p, 1, spec.transposed ? x : dy, spec.transposed ? dy : x, dweight);
  EXPECT_EQ(dweight, expected_dweight);

  // Sums of op(first) (m, k) along k are BGRADA, those of op(second) (k, n) BGRADB.
  const ColumnMajor& factor = spec.transposed ? p.second : p.first;
  const bool along_columns = spec.transposed ? p.transpose_second : !p.transpose_first;
  for (std::int64_t o = 0; o < out; ++o)
    for (std::int64_t l = 0; l < p.k; ++l)
      dbias[static_cast<std::size_t>(o)] +=
          dy[static_cast<std::size_t>(along_columns ? l * factor.step + o : o * factor.step + l)];
  EXPECT_EQ(dbias, expected_dbias);
}

INSTANTIATE_TEST_SUITE_P(BothWeights, LinearProducts, testing::Bool());

}  // namespace matrix_layout_test
}  // namespace hetpipe::cuda
