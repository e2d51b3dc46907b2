// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>

// Stands in for the driver in programs that plan for a described card: it has no device and runs
// nothing, but takes every kernel that is given to it to load. cuDNN compiles kernels for the
// described card as it does for a real one and then loads them, which without any driver it could
// not; what it compiles is what is tested.
namespace {

int kernel = 0;  // something to point at

}  // namespace

extern "C" {

CUresult cuInit(unsigned) { return CUDA_ERROR_NO_DEVICE; }
CUresult cuDriverGetVersion(int* version) {
  *version = CUDA_VERSION;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetCount(int* count) {
  *count = 0;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGet(CUdevice*, int) { return CUDA_ERROR_NO_DEVICE; }
CUresult cuCtxGetCurrent(CUcontext* context) {
  *context = nullptr;
  return CUDA_SUCCESS;
}
CUresult cuGetErrorString(CUresult, const char** text) {
  *text = "there is no device";
  return CUDA_SUCCESS;
}
CUresult cuGetErrorName(CUresult, const char** text) {
  *text = "CUDA_ERROR_NO_DEVICE";
  return CUDA_SUCCESS;
}

CUresult cuLibraryLoadData(CUlibrary* library, const void*, CUjit_option*, void**, unsigned,
                           CUlibraryOption*, void**, unsigned) {
  *library = reinterpret_cast<CUlibrary>(&kernel);
  return CUDA_SUCCESS;
}
CUresult cuLibraryUnload(CUlibrary) { return CUDA_SUCCESS; }
CUresult cuLibraryGetKernel(CUkernel* found, CUlibrary, const char*) {
  *found = reinterpret_cast<CUkernel>(&kernel);
  return CUDA_SUCCESS;
}
CUresult cuKernelGetAttribute(int* value, CUfunction_attribute, CUkernel, CUdevice) {
  *value = 0;
  return CUDA_SUCCESS;
}
CUresult cuKernelSetAttribute(CUfunction_attribute, int, CUkernel, CUdevice) {
  return CUDA_SUCCESS;
}

}  // extern "C"
