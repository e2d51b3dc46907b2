// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda_loader.h"

#include <dlfcn.h>

#include <filesystem>

#include "base/error.h"
#include "base/module_file.h"
#include "base/text.h"

namespace hetpipe {
namespace {

namespace fs = std::filesystem;

// Of the module, and whether it was looked for.
struct Asked {
  fs::path path;
  bool loaded = false;
};
Asked& asked() {
  static Asked asked;
  return asked;
}

CudaLoad load() {
  std::error_code error;
  fs::path path = asked().path;
  asked().loaded = true;
  if (path.empty()) path = module_file("hetpipe_cuda.so");
  if (!fs::exists(path, error)) {
    return {nullptr, "not part of this build (there is no " + path.string() + ")"};
  }
  if (asked().path.empty() && dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL) == nullptr) {
    // Found out before the module's libraries, half a gigabyte of them, are mapped.
    return {nullptr, std::string("no NVIDIA driver: ") + dlerror()};
  }
  // Bound at once: a library that lacks a symbol is noticed here, not in the middle of a run. The
  // module is never unloaded: what it made may outlive any owner of a handle.
  void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return {nullptr, std::string("not loadable: ") + dlerror()};
  const auto entry = reinterpret_cast<CudaModuleEntry>(dlsym(handle, kCudaModuleEntry));
  const CudaModule* const module = entry != nullptr ? entry(kCudaModuleAbi) : nullptr;
  if (module == nullptr) {
    return {nullptr, path.string() + " belongs to another build. Rebuild both."};
  }
  return {module, ""};
}

}  // namespace

void use_cuda_module(const std::string& path) {
  ensure(!asked().loaded, "the CUDA module is chosen before it is loaded");
  asked().path = path;
}

const CudaLoad& load_cuda() {
  static const CudaLoad loaded = load();
  return loaded;
}

}  // namespace hetpipe
