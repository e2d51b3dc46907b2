// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/context.h"

#include <cuda_runtime.h>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "kernels/cuda/blas/product.h"
#include "kernels/cuda/check.h"

namespace hetpipe::cuda {

Context::Context(PlanOptions options)
    : options_(std::move(options)), cache_(options_.cache_file, options_.warn) {}

std::size_t cudnn_version() { return cudnnGetVersion(); }

std::unique_ptr<Context> Context::on_device(PlanOptions options) {
  std::unique_ptr<Context> context(new Context(std::move(options)));
  check(cudaGetDevice(&context->index_), "asking for the GPU in use");
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, context->index_), "asking for a GPU's properties");
  int driver = 0;
  check(cudaDriverGetVersion(&driver), "asking for the driver's version");
  context->card_ = {properties.name, properties.major, properties.minor, driver};
  cudnnHandle_t dnn = nullptr;
  check(cudnnCreate(&dnn), "starting cuDNN");
  context->dnn_ = UniqueHandle<DnnTraits>(dnn);
  cublasLtHandle_t blas = nullptr;
  check(cublasLtCreate(&blas), "starting cuBLASLt");
  context->blas_ = UniqueHandle<BlasTraits>(blas);
  return context;
}

std::unique_ptr<Context> Context::described(const std::string& json, PlanOptions options) {
  std::unique_ptr<Context> context(new Context(std::move(options)));
  context->properties_ = Descriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  // With the zero at its end: the library reads it as a C string.
  context->properties_.set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                           static_cast<std::int64_t>(json.size()) + 1, json.c_str());
  context->properties_.finalize("reading the description of a card");
  // Every key that is asked for here is one that the library has just insisted on.
  const Json values = Json::parse(json);
  const int version = values.at("deviceVer").get<int>();  // 900 is 9.0
  context->card_ = {values.at("deviceName").get<std::string>(), version / 100, version % 100 / 10,
                    values.at("driverVer").get<int>()};
  return context;
}

PlanTarget Context::target() const { return {dnn_.get(), properties_ ? &properties_ : nullptr}; }

std::string Context::description() const {
  if (properties_) return properties_.get_text(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION);
  Descriptor properties(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  properties.set_enum(CUDNN_ATTR_DEVICEPROP_DEVICE_ID, CUDNN_TYPE_INT32,
                      static_cast<std::int32_t>(index_));
  properties.finalize("describing a GPU");
  return properties.get_text(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION);
}

std::string Context::cache_key(const std::string& library, const std::string& key) const {
  return format("%s | %d.%d | driver %d | %s | %s, at most %zu bytes | ", card_.name.c_str(),
                card_.major, card_.minor, card_.driver, library.c_str(),
                options_.deterministic ? "deterministic" : "any order", options_.workspace) +
         key;
}

}  // namespace hetpipe::cuda
