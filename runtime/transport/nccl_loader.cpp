// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>

#include <filesystem>

#include "base/error.h"
#include "base/module_file.h"
#include "runtime/transport/nccl_module.h"

namespace hetpipe {
namespace {

namespace fs = std::filesystem;

// Of the module, and whether it was looked for.
struct Asked {
  fs::path path;
  bool loaded = false;
};
Asked& asked_for_nccl() {
  static Asked asked;
  return asked;
}

NcclLoad load() {
  std::error_code error;
  asked_for_nccl().loaded = true;
  fs::path path = asked_for_nccl().path;
  if (path.empty()) path = module_file("hetpipe_nccl.so");
  if (!fs::exists(path, error)) return {nullptr, "not part of this build"};
  // Bound at once and never unloaded, as the CUDA module is (kernels/cuda_loader.cpp).
  void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return {nullptr, std::string("not loadable: ") + dlerror()};
  const auto entry = reinterpret_cast<NcclModuleEntry>(dlsym(handle, kNcclModuleEntry));
  const NcclModule* const module = entry != nullptr ? entry(kNcclModuleAbi) : nullptr;
  if (module == nullptr) return {nullptr, path.string() + " belongs to another build"};
  return {module, ""};
}

}  // namespace

void use_nccl_module(const std::string& path) {
  ensure(!asked_for_nccl().loaded, "NCCL's module is chosen before it is loaded");
  asked_for_nccl().path = path;
}

const NcclLoad& load_nccl() {
  static const NcclLoad loaded = load();
  return loaded;
}

}  // namespace hetpipe
