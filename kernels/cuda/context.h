// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cublasLt.h>
#include <cudnn.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/unique_handle.h"
#include "kernels/cuda/dnn/plan.h"
#include "kernels/cuda/plan_cache.h"

// What the vendor's libraries need to know to plan and to run: their handles, the card, and which
// plans are wanted. One per device and thread that enqueues.
namespace hetpipe::cuda {

struct PlanOptions {
  // Kept from run to run; empty: found again in every run. Two plans for one graph may differ in
  // bits, so runs are the same bit for bit where this file is the same, or where nothing is
  // measured.
  std::string cache_file = {};
  bool measure = true;                           // false: the first that the library recommends
  bool deterministic = true;                     // engines whose bits do not depend on timing alone
  std::size_t workspace = std::size_t{1} << 30;  // bytes that any one plan may use
  int candidates = 8;                            // measured per graph
  std::function<void(const std::string&)> warn = {};
};

// What any one plan may use on a card of so many bytes.
inline std::size_t workspace_of_card(std::size_t memory) {
  return std::min(PlanOptions{}.workspace, memory / 32);
}

struct Card {
  std::string name;
  int major = 0;
  int minor = 0;
  int driver = 0;  // "13000"
};

// 91002: of the cuDNN that was loaded, 9.10.2.
std::size_t cudnn_version();

class Context {
 public:
  // For the calling thread's GPU. SystemError where there is none.
  static std::unique_ptr<Context> on_device(PlanOptions options);
  // For a card that is described in cuDNN's JSON (CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION):
  // plans can be made, nothing can be run or measured.
  static std::unique_ptr<Context> described(const std::string& json, PlanOptions options);

  bool has_device() const { return static_cast<bool>(dnn_); }
  const Card& card() const { return card_; }
  // The card in the JSON that `described` reads: to plan for it where it is not.
  std::string description() const;
  const PlanOptions& options() const { return options_; }
  PlanCache& cache() { return cache_; }
  PlanTarget target() const;
  cudnnHandle_t dnn() const { return dnn_.get(); }
  cublasLtHandle_t blas() const { return blas_.get(); }

  // What a choice depends on beside the graph itself, in front of the graph's key.
  std::string cache_key(const std::string& library, const std::string& key) const;
  // This process's plans, by that key: layers that are alike share one. Null: none exists.
  std::map<std::string, std::shared_ptr<const Plan>>& plans() { return plans_; }

 private:
  struct DnnTraits {
    using Handle = cudnnHandle_t;
    static Handle empty() { return nullptr; }
    static void close(Handle handle) noexcept { cudnnDestroy(handle); }
  };
  struct BlasTraits {
    using Handle = cublasLtHandle_t;
    static Handle empty() { return nullptr; }
    static void close(Handle handle) noexcept { cublasLtDestroy(handle); }
  };

  explicit Context(PlanOptions options);

  PlanOptions options_;
  PlanCache cache_;
  Card card_;
  int index_ = 0;  // of the GPU
  UniqueHandle<DnnTraits> dnn_;
  UniqueHandle<BlasTraits> blas_;
  Descriptor properties_;  // of a described card
  std::map<std::string, std::shared_ptr<const Plan>> plans_;
};

}  // namespace hetpipe::cuda
