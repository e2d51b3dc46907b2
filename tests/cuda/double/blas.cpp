// SPDX-License-Identifier: Apache-2.0
#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "tests/cuda/double/double.h"

// cuBLASLt's products as plain loops over what its descriptors say, sums in double. Two algorithms
// are recommended, the second of which wants a workspace. Both rely on as much alignment as was
// asked for, as the library's do.
namespace hetpipe::cuda::stand_in {
namespace {

thread_local std::string refusal;

struct Description {
  cublasComputeType_t compute;
  cublasOperation_t first = CUBLAS_OP_N, second = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  cudaDataType_t bias_type = CUDA_R_32F;
  void* bias = nullptr;
  void* aux = nullptr;
  std::int64_t aux_step = 0;

  bool gelu() const { return epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS; }
};
struct Matrix {
  cudaDataType type;
  std::int64_t rows, columns, step;
  std::int32_t count = 1;
  std::int64_t distance = 0;

  std::int64_t elements() const { return (count - 1) * distance + (columns - 1) * step + rows; }
};
struct Preference {
  std::uint64_t workspace = 0;
  std::array<std::uint32_t, 4> alignments{256, 256, 256, 256};  // of A, B, C, D
};

ElementType type_of(cudaDataType_t type) {
  return type == CUDA_R_16BF  ? ElementType::bf16
         : type == CUDA_R_16F ? ElementType::fp16
                              : ElementType::fp32;
}
std::size_t bytes_of(const Matrix& m) {
  return static_cast<std::size_t>(m.elements()) * hetpipe::bytes_of(type_of(m.type));
}
std::size_t alignment_of(const void* memory) {
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  return address == 0 ? 256 : std::min<std::size_t>(256, address & -address);
}

// What an algorithm says of itself.
enum Word {
  number,
  workspace_bytes,
  a_alignment,
  b_alignment,
  c_alignment,
  d_alignment,
  bias_alignment
};
constexpr std::uint64_t kOurs = 0xd0b1e00;
constexpr std::uint64_t kWorkspace = 1000;

// (rows, columns) of op(matrix), for one of several.
std::vector<double> factor(const Matrix& m, const void* memory, bool transpose, std::int64_t i,
                           Precision precision) {
  std::vector<double> values;
  const std::int64_t rows = transpose ? m.columns : m.rows;
  const std::int64_t columns = transpose ? m.rows : m.columns;
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c) {
      const std::int64_t at = i * m.distance + (transpose ? c + r * m.step : r + c * m.step);
      values.push_back(rounded_factor(element(memory, type_of(m.type), at), precision));
    }
  return values;
}

struct Call {
  Description description;
  Matrix a, b, d;
  const void *a_memory, *b_memory;
  void* d_memory;
  double alpha, beta;

  void run() const {
    const bool a_turned = description.first == CUBLAS_OP_T;
    const bool b_turned = description.second == CUBLAS_OP_T;
    const Precision precision =
        description.compute == CUBLAS_COMPUTE_32F_FAST_TF32 ? Precision::tf32 : Precision::fp32;
    const std::int64_t inner = a_turned ? a.rows : a.columns;
    for (std::int64_t i = 0; i < d.count; ++i) {
      const auto first = factor(a, a_memory, a_turned, i, precision);
      const auto second = factor(b, b_memory, b_turned, i, precision);
      for (std::int64_t c = 0; c < d.columns; ++c)
        for (std::int64_t r = 0; r < d.rows; ++r) {
          double sum = 0;
          for (std::int64_t k = 0; k < inner; ++k)
            sum += first[static_cast<std::size_t>(r * inner + k)] *
                   second[static_cast<std::size_t>(k * d.columns + c)];
          sum *= alpha;
          const std::int64_t at = i * d.distance + r + c * d.step;
          if (beta != 0) sum += beta * element(d_memory, type_of(d.type), at);
          if (description.epilogue == CUBLASLT_EPILOGUE_BIAS || description.gelu()) {
            sum += element(description.bias, type_of(description.bias_type), r);
          }
          if (description.gelu()) {
            set_element(description.aux, type_of(d.type), r + c * description.aux_step, sum);
            sum *= 0.5 * (1 + std::tanh(std::sqrt(2 / M_PI) * (sum + 0.044715 * sum * sum * sum)));
          }
          set_element(d_memory, type_of(d.type), at, sum);
        }
      // The sums of what is multiplied, over what is summed over.
      if (description.epilogue == CUBLASLT_EPILOGUE_BGRADA) sums(first, d.rows, inner, inner, 1);
      if (description.epilogue == CUBLASLT_EPILOGUE_BGRADB)
        sums(second, d.columns, inner, 1, d.columns);
    }
  }

  void sums(const std::vector<double>& of, std::int64_t count, std::int64_t inner,
            std::int64_t step, std::int64_t inner_step) const {
    for (std::int64_t j = 0; j < count; ++j) {
      double sum = 0;
      for (std::int64_t k = 0; k < inner; ++k)
        sum += of[static_cast<std::size_t>(j * step + k * inner_step)];
      set_element(description.bias, type_of(description.bias_type), j, sum);
    }
  }
};

std::string misfit(const Call& call) {
  const auto sides = [](const Matrix& m, bool turned) {
    return turned ? std::pair(m.columns, m.rows) : std::pair(m.rows, m.columns);
  };
  const auto [m, k] = sides(call.a, call.description.first == CUBLAS_OP_T);
  const auto [k2, n] = sides(call.b, call.description.second == CUBLAS_OP_T);
  if (k != k2 || m != call.d.rows || n != call.d.columns) return "extents that do not fit";
  for (const Matrix& x : {call.a, call.b, call.d}) {
    if (x.step < x.rows) return "columns that overlap";
    if (x.count != call.d.count) return "numbers of matrices that differ";
  }
  if (call.description.epilogue != CUBLASLT_EPILOGUE_DEFAULT && call.d.count > 1) {
    return "an epilogue of several products";
  }
  if (call.description.gelu() &&
      (call.description.aux_step % 8 != 0 || call.description.aux_step < call.d.rows)) {
    return "columns of GELU's input that are no multiple of 8 or overlap";
  }
  return "";
}

std::size_t bias_bytes(const Call& call) {
  const bool of_b = call.description.epilogue == CUBLASLT_EPILOGUE_BGRADB;
  return static_cast<std::size_t>(of_b ? call.d.columns : call.d.rows) *
         hetpipe::bytes_of(type_of(call.description.bias_type));
}

cublasStatus_t refuse(const std::string& why) {
  refusal = why;
  return CUBLAS_STATUS_INVALID_VALUE;
}

template <class Value>
void read(Value& value, const void* from) {
  value = *static_cast<const Value*>(from);
}
Description& of(cublasLtMatmulDesc_t handle) { return *reinterpret_cast<Description*>(handle); }
Matrix& of(cublasLtMatrixLayout_t handle) { return *reinterpret_cast<Matrix*>(handle); }
Preference& of(cublasLtMatmulPreference_t handle) { return *reinterpret_cast<Preference*>(handle); }

}  // namespace
}  // namespace hetpipe::cuda::stand_in

using namespace hetpipe::cuda::stand_in;

extern "C" {

std::size_t cublasLtGetVersion() { return 130100; }
const char* cublasLtGetStatusString(cublasStatus_t) { return refusal.c_str(); }
const char* cublasLtGetStatusName(cublasStatus_t) { return "CUBLAS_STATUS_INVALID_VALUE"; }
cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = reinterpret_cast<cublasLtHandle_t>(new int(gpu_in_use()));
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete reinterpret_cast<int*>(handle);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* handle, cublasComputeType_t compute,
                                        cudaDataType_t) {
  *handle = reinterpret_cast<cublasLtMatmulDesc_t>(new Description{.compute = compute});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t handle) {
  delete &of(handle);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t handle,
                                              cublasLtMatmulDescAttributes_t name,
                                              const void* value, std::size_t) {
  Description& d = of(handle);
  switch (name) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      read(d.first, value);
      break;
    case CUBLASLT_MATMUL_DESC_TRANSB:
      read(d.second, value);
      break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      read(d.epilogue, value);
      break;
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      read(d.bias_type, value);
      break;
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      read(d.bias, value);
      break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      read(d.aux, value);
      break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      read(d.aux_step, value);
      break;
    default:
      return refuse("an attribute that the double does not have");
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* handle, cudaDataType type,
                                          std::uint64_t rows, std::uint64_t columns,
                                          std::int64_t step) {
  *handle = reinterpret_cast<cublasLtMatrixLayout_t>(
      new Matrix{type, static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns), step});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t handle) {
  delete &of(handle);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t handle,
                                                cublasLtMatrixLayoutAttribute_t name,
                                                const void* value, std::size_t) {
  if (name == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT) {
    read(of(handle).count, value);
  } else if (name == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET) {
    read(of(handle).distance, value);
  } else {
    return refuse("an attribute that the double does not have");
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* handle) {
  *handle = reinterpret_cast<cublasLtMatmulPreference_t>(new Preference);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t handle) {
  delete &of(handle);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t handle,
                                                    cublasLtMatmulPreferenceAttributes_t name,
                                                    const void* value, std::size_t) {
  Preference& p = of(handle);
  switch (name) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      read(p.workspace, value);
      break;
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      break;
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
      read(p.alignments[0], value);
      break;
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
      read(p.alignments[1], value);
      break;
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
      read(p.alignments[2], value);
      break;
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      read(p.alignments[3], value);
      break;
    default:
      return refuse("an attribute that the double does not have");
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t description,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int* found) {
  const Preference& p = of(preference);
  *found = std::min(wanted, p.workspace >= kWorkspace ? 2 : 1);
  for (int i = 0; i < *found; ++i) {
    results[i] = {};
    auto& words = results[i].algo.data;
    words[number] = kOurs;
    words[workspace_bytes] = i == 0 ? 0 : kWorkspace;
    for (std::size_t k = 0; k < 4; ++k) words[a_alignment + k] = p.alignments[k];
    words[bias_alignment] = std::min<std::size_t>(16, alignment_of(of(description).bias));
    results[i].workspaceSize = words[workspace_bytes];
    results[i].state = CUBLAS_STATUS_SUCCESS;
  }
  return CUBLAS_STATUS_SUCCESS;
}
// As the library does: for the addresses that stand in the description.
cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t description,
                                       cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                       cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                       const cublasLtMatmulAlgo_t* algorithm,
                                       cublasLtMatmulHeuristicResult_t* result) {
  if (algorithm->data[number] != kOurs) return refuse("another library's algorithm");
  const Description& d = of(description);
  if (d.epilogue != CUBLASLT_EPILOGUE_DEFAULT &&
      (d.bias == nullptr || alignment_of(d.bias) < algorithm->data[bias_alignment])) {
    return refuse("a bias that is nowhere, or lies worse than the algorithm allows");
  }
  result->workspaceSize = algorithm->data[workspace_bytes];
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t description,
                              const void* alpha, const void* a, cublasLtMatrixLayout_t a_layout,
                              const void* b, cublasLtMatrixLayout_t b_layout, const void* beta,
                              const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              std::size_t bytes, cudaStream_t stream) {
  const Call call{of(description),
                  of(a_layout),
                  of(b_layout),
                  of(d_layout),
                  a,
                  b,
                  d,
                  static_cast<double>(*static_cast<const float*>(alpha)),
                  static_cast<double>(*static_cast<const float*>(beta))};
  const auto& words = algorithm->data;
  if (*reinterpret_cast<int*>(handle) != gpu_in_use()) return refuse("a handle of another GPU");
  if (words[number] != kOurs) return refuse("an algorithm that was never chosen");
  if (c != d || c_layout != d_layout) return refuse("a sum that goes elsewhere");
  if (bytes < words[workspace_bytes]) return refuse("a workspace that is too small");
  if (const std::string why = misfit(call); !why.empty()) return refuse(why);
  try {
    check_inside("A", a, bytes_of(call.a), words[a_alignment]);
    check_inside("B", b, bytes_of(call.b), words[b_alignment]);
    check_inside("D", d, bytes_of(call.d), std::max(words[c_alignment], words[d_alignment]));
    const std::pair<const Matrix&, std::uint64_t> matrices[] = {
        {call.a, words[a_alignment]}, {call.b, words[b_alignment]}, {call.d, words[d_alignment]}};
    for (const auto& [matrix, alignment] : matrices) {
      const auto distance =
          static_cast<std::uint64_t>(matrix.distance) * hetpipe::bytes_of(type_of(matrix.type));
      if (distance % alignment != 0) return refuse("products that lie worse than the first");
    }
    if (call.description.epilogue != CUBLASLT_EPILOGUE_DEFAULT) {
      check_inside("the bias", call.description.bias, bias_bytes(call), words[bias_alignment]);
    }
    if (call.description.gelu()) {
      check_inside("GELU's input", call.description.aux, bytes_of(call.d), 16);
    }
    need_code(hetpipe::format("product of %d x %d by %d, %d", static_cast<int>(call.d.rows),
                              static_cast<int>(call.d.columns), static_cast<int>(call.a.columns),
                              static_cast<int>(call.a.type)));
    use_workspace(stream, workspace, words[workspace_bytes]);
    count(Counted::product);
    enqueue(stream, [call] { call.run(); });
  } catch (const hetpipe::SystemError& e) {
    return refuse(e.what());
  }
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
