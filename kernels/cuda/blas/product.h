// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cublasLt.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <map>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_handle.h"
#include "kernels/cuda/blas/layout.h"
#include "kernels/element.h"

// Matrix products by cuBLASLt, row by row, sums in fp32: C = alpha * A·B + beta * C, with a bias
// added to every row or the sum of a factor's rows taken along. The algorithm is the fastest of
// those that the library recommends, found and kept as cuDNN's plans are (plan_cache.h).
namespace hetpipe::cuda {

class Context;

void check(cublasStatus_t status, std::string_view doing,
           const std::source_location& where = std::source_location::current());

enum class Epilogue {
  none,
  bias,         // c += bias (columns), of C's type
  bias_gelu,    // then aux = c and c = gelu(c), the form of LayerSpec's Gelu
  bias_from_a,  // bias (rows) = the sums of A (rows, inner) over inner, of C's type
  bias_from_b   // bias (columns) = the sums of B (inner, columns) over inner, of C's type
};

struct ProductTypes {
  Precision precision = Precision::fp32;  // of A and B: its element type
  ElementType result = ElementType::fp32;
};

class MatrixProduct {
 public:
  MatrixProduct(Context& context, const Product& product, ProductTypes types,
                Epilogue epilogue = Epilogue::none);

  // Whether the library has an algorithm for this form, these types and this epilogue, where all
  // memory is aligned.
  bool supported();
  // Bytes; from here on the card is needed. SystemError where not supported.
  std::size_t workspace();

  struct Memory {
    const void* a;
    const void* b;
    void* c;
    void* bias = nullptr;       // read or written, as the epilogue says
    void* aux = nullptr;        // like c, where the epilogue writes one; columns: a multiple of 8
    void* workspace = nullptr;  // at a multiple of 256
    float alpha = 1;
    float beta = 0;
  };
  // Where a factor, the result or the bias does not start at a multiple of 16 bytes another
  // algorithm is taken, one that needs no workspace: SystemError where there is none.
  void run(cudaStream_t stream, const Memory& memory);

 private:
  struct DescriptionTraits {
    using Handle = cublasLtMatmulDesc_t;
    static Handle empty() { return nullptr; }
    static void close(Handle handle) noexcept { cublasLtMatmulDescDestroy(handle); }
  };
  struct LayoutTraits {
    using Handle = cublasLtMatrixLayout_t;
    static Handle empty() { return nullptr; }
    static void close(Handle handle) noexcept { cublasLtMatrixLayoutDestroy(handle); }
  };
  using LayoutHandle = UniqueHandle<LayoutTraits>;

  static LayoutHandle make_layout(const ColumnMajor& matrix, ElementType type, std::int64_t batch);
  struct Choice {
    cublasLtMatmulAlgo_t algorithm{};
    std::size_t workspace = 0;
  };
  std::size_t best_alignment() const;  // that all memory of these products can have
  // Of memory at multiples of `alignment` bytes.
  std::string key(std::size_t alignment) const;
  const std::optional<Choice>& try_choose(std::size_t alignment);
  const Choice& choose(std::size_t alignment);
  std::optional<Choice> find(std::size_t alignment);
  std::optional<Choice> kept(std::size_t alignment, std::size_t most_workspace) const;
  std::optional<Choice> fastest(const std::vector<cublasLtMatmulHeuristicResult_t>& results,
                                std::size_t alignment, std::size_t most_workspace) const;
  void multiply(cudaStream_t stream, const cublasLtMatmulAlgo_t& algorithm, std::size_t workspace,
                const Memory& memory) const;
  std::size_t bytes(const ColumnMajor& matrix, ElementType type) const;

  Context& context_;
  Product product_;
  ProductTypes types_;
  Epilogue epilogue_;
  UniqueHandle<DescriptionTraits> description_;
  LayoutHandle first_, second_, result_;
  std::map<std::size_t, std::optional<Choice>> choices_;  // by alignment; no value: none exists
};

}  // namespace hetpipe::cuda
