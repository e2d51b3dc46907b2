// SPDX-License-Identifier: Apache-2.0

// What else cuDNN looks for in a driver before it compiles anything. None of it is called while a
// plan is made; a file of its own, because the driver's header gives some of these other names.
namespace {

constexpr int kNoDevice = 100;  // CUDA_ERROR_NO_DEVICE

}  // namespace

#define HETPIPE_REFUSED(name) \
  extern "C" int name();      \
  int name() { return kNoDevice; }

HETPIPE_REFUSED(cuCtxGetLimit)
HETPIPE_REFUSED(cuCtxPopCurrent)
HETPIPE_REFUSED(cuCtxPushCurrent)
HETPIPE_REFUSED(cuLaunchCooperativeKernel)
HETPIPE_REFUSED(cuLaunchKernel)
HETPIPE_REFUSED(cuLaunchKernelEx)
HETPIPE_REFUSED(cuLibraryLoadFromFile)
HETPIPE_REFUSED(cuLinkAddData)
HETPIPE_REFUSED(cuLinkComplete)
HETPIPE_REFUSED(cuLinkCreate)
HETPIPE_REFUSED(cuLinkDestroy)
HETPIPE_REFUSED(cuOccupancyMaxPotentialClusterSize)
HETPIPE_REFUSED(cuStreamGetCtx)
