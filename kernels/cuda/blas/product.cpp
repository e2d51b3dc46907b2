// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/blas/product.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "kernels/cuda/context.h"
#include "kernels/cuda/measure.h"

namespace hetpipe::cuda {
namespace {

constexpr std::uintptr_t kAlignment = 16;  // bytes; of all but the workspace

cudaDataType_t type_of(ElementType type) {
  return type == ElementType::bf16   ? CUDA_R_16BF
         : type == ElementType::fp16 ? CUDA_R_16F
                                     : CUDA_R_32F;
}

const char* to_string(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::none:
      return "none";
    case Epilogue::bias:
      return "bias";
    case Epilogue::bias_gelu:
      return "bias and gelu";
    case Epilogue::bias_from_a:
      return "bias from a";
    case Epilogue::bias_from_b:
      return "bias from b";
  }
  return "?";
}

// The library's first factor is our B (layout.h).
cublasLtEpilogue_t epilogue_of(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::none:
      return CUBLASLT_EPILOGUE_DEFAULT;
    case Epilogue::bias:
      return CUBLASLT_EPILOGUE_BIAS;
    case Epilogue::bias_gelu:
      return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    case Epilogue::bias_from_a:
      return CUBLASLT_EPILOGUE_BGRADB;
    case Epilogue::bias_from_b:
      return CUBLASLT_EPILOGUE_BGRADA;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

template <class Value>
void set(cublasLtMatmulDesc_t description, cublasLtMatmulDescAttributes_t name, Value value) {
  check(cublasLtMatmulDescSetAttribute(description, name, &value, sizeof value),
        "describing a matrix product");
}
template <class Value>
void set(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t name, Value value) {
  check(cublasLtMatrixLayoutSetAttribute(layout, name, &value, sizeof value),
        "describing a matrix");
}

// The largest power of two, up to the alignment that is usual, that all addresses are multiples of.
std::size_t alignment_of(std::initializer_list<const void*> memory) {
  std::uintptr_t bits = kAlignment;
  for (const void* const address : memory) bits |= reinterpret_cast<std::uintptr_t>(address);
  return bits & (~bits + 1);
}

// What memory of this type has where all of a product is at multiples of `alignment`: whole
// elements.
std::size_t at_least(std::size_t alignment, ElementType type) {
  return std::max(alignment, bytes_of(type));
}

struct PreferenceTraits {
  using Handle = cublasLtMatmulPreference_t;
  static Handle empty() { return nullptr; }
  static void close(Handle handle) noexcept { cublasLtMatmulPreferenceDestroy(handle); }
};

// The library says that an algorithm may be kept as its bytes for as long as its version stays.
std::string text_of(const cublasLtMatmulAlgo_t& algorithm) {
  std::string text;
  for (const std::uint64_t word : algorithm.data)
    text += format("%016llx", static_cast<unsigned long long>(word));
  return text;
}
std::optional<cublasLtMatmulAlgo_t> try_parse_algorithm(const std::string& text) {
  cublasLtMatmulAlgo_t algorithm{};
  constexpr std::size_t kDigits = 16;
  if (text.size() != kDigits * std::size(algorithm.data) ||
      text.find_first_not_of("0123456789abcdef") != std::string::npos) {
    return std::nullopt;
  }
  for (std::size_t i = 0; i < std::size(algorithm.data); ++i)
    algorithm.data[i] = std::stoull(text.substr(i * kDigits, kDigits), nullptr, 16);
  return algorithm;
}

}  // namespace

void check(cublasStatus_t status, std::string_view doing, const std::source_location& where) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  const char* const slash = std::strrchr(where.file_name(), '/');
  throw SystemError(format("cuBLASLt: %s (%s), %.*s (%s:%u)", cublasLtGetStatusString(status),
                           cublasLtGetStatusName(status), static_cast<int>(doing.size()),
                           doing.data(), slash != nullptr ? slash + 1 : where.file_name(),
                           where.line()));
}

MatrixProduct::MatrixProduct(Context& context, const Product& product, ProductTypes types,
                             Epilogue epilogue)
    : context_(context), product_(product), types_(types), epilogue_(epilogue) {
  const cublasComputeType_t compute =
      types.precision == Precision::tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  const ColumnMajorProduct p = column_major(product);
  cublasLtMatmulDesc_t description = nullptr;
  check(cublasLtMatmulDescCreate(&description, compute, CUDA_R_32F), "describing a matrix product");
  description_ = UniqueHandle<DescriptionTraits>(description);
  set(description, CUBLASLT_MATMUL_DESC_TRANSA, p.transpose_first ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(description, CUBLASLT_MATMUL_DESC_TRANSB, p.transpose_second ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(description, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(epilogue));
  if (epilogue != Epilogue::none) {
    set(description, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE,
        static_cast<std::int32_t>(type_of(types.result)));
  }
  if (epilogue == Epilogue::bias_gelu) {
    set(description, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, p.result.step);
  }
  first_ = make_layout(p.first, element_of(types.precision), product.batch);
  second_ = make_layout(p.second, element_of(types.precision), product.batch);
  result_ = make_layout(p.result, types.result, product.batch);
}

MatrixProduct::LayoutHandle MatrixProduct::make_layout(const ColumnMajor& matrix, ElementType type,
                                                       std::int64_t batch) {
  cublasLtMatrixLayout_t raw = nullptr;
  check(cublasLtMatrixLayoutCreate(&raw, type_of(type), static_cast<std::uint64_t>(matrix.rows),
                                   static_cast<std::uint64_t>(matrix.columns), matrix.step),
        "describing a matrix");
  LayoutHandle layout(raw);
  if (batch > 1) {
    set(raw, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<std::int32_t>(batch));
    set(raw, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, matrix.batch);
  }
  return layout;
}

std::string MatrixProduct::key(std::size_t alignment) const {
  const Product& p = product_;
  const auto number = [](std::int64_t n) { return std::to_string(n); };
  return std::string(hetpipe::to_string(types_.precision)) + " to " +
         hetpipe::to_string(types_.result) + " | product " + number(p.rows) + "," +
         number(p.columns) + "," + number(p.inner) + (p.transposed_a ? " aT" : " a") +
         number(p.step_a) + (p.transposed_b ? " bT" : " b") + number(p.step_b) + " c" +
         number(p.step_c) + " batch " + number(p.batch) + " " + number(p.batch_a) + "," +
         number(p.batch_b) + "," + number(p.batch_c) + " epilogue " + to_string(epilogue_) +
         (alignment < kAlignment ? " at " + std::to_string(alignment) : "");
}

// Of several products the second may lie worse than the first, and none worse than it.
std::size_t MatrixProduct::best_alignment() const {
  if (product_.batch == 1) return kAlignment;
  const auto distance = [](std::int64_t elements, ElementType type) {
    return reinterpret_cast<const void*>(static_cast<std::uintptr_t>(elements) * bytes_of(type));
  };
  const ElementType type = element_of(types_.precision);
  return alignment_of({distance(product_.batch_a, type), distance(product_.batch_b, type),
                       distance(product_.batch_c, types_.result)});
}

bool MatrixProduct::supported() { return try_choose(best_alignment()).has_value(); }
std::size_t MatrixProduct::workspace() { return choose(best_alignment()).workspace; }

void MatrixProduct::run(cudaStream_t stream, const Memory& memory) {
  const std::size_t alignment =
      alignment_of({memory.a, memory.b, memory.c, memory.bias, memory.aux});
  const Choice& choice = choose(std::min(alignment, best_alignment()));
  multiply(stream, choice.algorithm, choice.workspace, memory);
}

void MatrixProduct::multiply(cudaStream_t stream, const cublasLtMatmulAlgo_t& algorithm,
                             std::size_t workspace, const Memory& m) const {
  if (epilogue_ != Epilogue::none) {
    set(description_.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, m.bias);
  }
  if (epilogue_ == Epilogue::bias_gelu) {
    set(description_.get(), CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, m.aux);
  }
  check(cublasLtMatmul(context_.blas(), description_.get(), &m.alpha, m.b, first_.get(), m.a,
                       second_.get(), &m.beta, m.c, result_.get(), m.c, result_.get(), &algorithm,
                       m.workspace, workspace, stream),
        "multiplying matrices: " + key(kAlignment));
}

std::size_t MatrixProduct::bytes(const ColumnMajor& matrix, ElementType type) const {
  const std::int64_t last =
      (product_.batch - 1) * matrix.batch + (matrix.columns - 1) * matrix.step + matrix.rows;
  return static_cast<std::size_t>(last) * bytes_of(type);
}

// The algorithm of an earlier run, if this library still accepts it.
std::optional<MatrixProduct::Choice> MatrixProduct::kept(std::size_t alignment,
                                                         std::size_t most_workspace) const {
  const std::optional<PlanChoice> choice = context_.cache().find(
      context_.cache_key(format("cuBLASLt %zu", cublasLtGetVersion()), key(alignment)));
  if (!choice) return std::nullopt;
  const std::optional<cublasLtMatmulAlgo_t> algorithm = try_parse_algorithm(choice->choice);
  if (!algorithm) return std::nullopt;
  cublasLtMatmulHeuristicResult_t result{};
  if (cublasLtMatmulAlgoCheck(context_.blas(), description_.get(), first_.get(), second_.get(),
                              result_.get(), result_.get(), &*algorithm,
                              &result) != CUBLAS_STATUS_SUCCESS ||
      result.workspaceSize > most_workspace) {
    return std::nullopt;
  }
  return Choice{*algorithm, result.workspaceSize};
}

const MatrixProduct::Choice& MatrixProduct::choose(std::size_t alignment) {
  const std::optional<Choice>& choice = try_choose(alignment);
  if (!choice) {
    throw SystemError("cuBLASLt: no algorithm for " + key(alignment) + " on " +
                      context_.card().name);
  }
  return *choice;
}

const std::optional<MatrixProduct::Choice>& MatrixProduct::try_choose(std::size_t alignment) {
  const auto at = choices_.find(alignment);
  if (at != choices_.end()) return at->second;
  return choices_[alignment] = find(alignment);
}

std::optional<MatrixProduct::Choice> MatrixProduct::find(std::size_t alignment) {
  if (!context_.has_device()) {
    throw SystemError("cuBLASLt: it plans only for the GPU it runs on, and there is none for " +
                      key(alignment));
  }
  const PlanOptions& options = context_.options();
  // Who asks for the workspace does not know the addresses yet: only aligned memory gets one.
  const std::uint64_t most_workspace = alignment == best_alignment() ? options.workspace : 0;
  if (epilogue_ != Epilogue::none) {
    // Algorithms are recommended, and checked, for the alignment of whatever address stands here.
    set(description_.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER,
        reinterpret_cast<void*>(at_least(alignment, ElementType::fp32)));
  }
  if (epilogue_ == Epilogue::bias_gelu) {
    set(description_.get(), CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER,
        reinterpret_cast<void*>(at_least(alignment, types_.result)));
  }
  if (const std::optional<Choice> choice = kept(alignment, most_workspace)) return choice;

  cublasLtMatmulPreference_t raw = nullptr;
  check(cublasLtMatmulPreferenceCreate(&raw), "asking for algorithms");
  const UniqueHandle<PreferenceTraits> preference(raw);
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t name, auto value) {
    check(cublasLtMatmulPreferenceSetAttribute(raw, name, &value, sizeof value),
          "asking for algorithms");
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, most_workspace);
  // Parts of one sum meet in fp32, in an order that is the same in every run: neither by turns in
  // the output nor rounded to its type.
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
         static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  // A factor may start inside a row.
  const auto prefer_alignment = [&](ElementType type, auto... names) {
    (prefer(names, static_cast<std::uint32_t>(at_least(alignment, type))), ...);
  };
  prefer_alignment(element_of(types_.precision), CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
                   CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
  prefer_alignment(types_.result, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
                   CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
  std::vector<cublasLtMatmulHeuristicResult_t> results(
      options.measure ? static_cast<std::size_t>(options.candidates) : 1);
  int count = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      context_.blas(), description_.get(), first_.get(), second_.get(), result_.get(),
      result_.get(), raw, static_cast<int>(results.size()), results.data(), &count);
  if (status != CUBLAS_STATUS_NOT_SUPPORTED) {
    check(status, "asking for algorithms: " + key(alignment));
  }
  results.resize(static_cast<std::size_t>(count));
  std::erase_if(results, [](const auto& r) { return r.state != CUBLAS_STATUS_SUCCESS; });
  if (results.empty()) return std::nullopt;
  if (options.measure && results.size() > 1) {
    if (const std::optional<Choice> choice = fastest(results, alignment, most_workspace)) {
      return choice;
    }
  }
  return Choice{results.front().algo, results.front().workspaceSize};
}

// No value where there is no room to measure. Another process's choice where it was sooner.
std::optional<MatrixProduct::Choice> MatrixProduct::fastest(
    const std::vector<cublasLtMatmulHeuristicResult_t>& results, std::size_t alignment,
    std::size_t most_workspace) const {
  std::size_t workspace = 0;
  for (const auto& result : results) workspace = std::max(workspace, result.workspaceSize);
  const ColumnMajorProduct p = column_major(product_);
  const std::size_t bias = static_cast<std::size_t>(std::max(p.m, p.n)) * sizeof(float);
  const ElementType type = element_of(types_.precision);
  // Each block begins at the alignment that is asked for, but no element lies across its own.
  const std::size_t of_factor = at_least(alignment, type);
  const std::size_t of_result = at_least(alignment, types_.result);
  const std::size_t of_bias = at_least(alignment, ElementType::fp32);
  const Scratch scratch({bytes(p.second, type) + of_factor, bytes(p.first, type) + of_factor,
                         bytes(p.result, types_.result) + of_result, bias + of_bias, workspace,
                         epilogue_ == Epilogue::bias_gelu
                             ? bytes(p.result, types_.result) + of_result
                             : std::size_t{0}});
  if (!scratch.complete()) {
    if (context_.options().warn) {
      context_.options().warn(
          "no room on the GPU to time a matrix product: using the library's first "
          "recommendation");
    }
    return std::nullopt;
  }
  const auto block = [&](std::size_t i, std::size_t offset) -> std::byte* {  // null: of no bytes
    void* const at = scratch.block(i);
    return at == nullptr ? nullptr : static_cast<std::byte*>(at) + offset;
  };
  const Memory memory{block(0, of_factor), block(1, of_factor), block(2, of_result),
                      block(3, of_bias),   block(5, of_result), scratch.block(4)};
  double best = 0;
  Choice choice;
  std::string failure;
  for (const auto& result : results) {
    try {
      const double seconds = median_seconds(kPlanRuns, [&](cudaStream_t stream) {
        multiply(stream, result.algo, result.workspaceSize, memory);
      });
      if (best == 0 || seconds < best) {
        best = seconds;
        choice = {result.algo, result.workspaceSize};
      }
    } catch (const SystemError& e) {  // an algorithm that does not run on this card after all
      failure = e.what();
    }
  }
  if (best == 0) throw SystemError(failure);
  const PlanChoice found{text_of(choice.algorithm), best};
  const std::string cached =
      context_.cache_key(format("cuBLASLt %zu", cublasLtGetVersion()), key(alignment));
  if (context_.cache().store(cached, found) == found) return choice;
  const std::optional<Choice> earlier = kept(alignment, most_workspace);
  return earlier ? earlier : choice;
}

}  // namespace hetpipe::cuda
