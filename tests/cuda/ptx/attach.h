// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/cuda/ptx/global_memory.h"

// PTX instead of the emulator, in programs that launch own kernels through it:
//   HETPIPE_PTX=FOLDER      kernels run from the PTX files there
//   HETPIPE_PTX_SEEN=FILE   which entries ran, at which shapes (Kernels::note_in)
namespace hetpipe::cuda::ptx {

// Nothing where HETPIPE_PTX is not set. Returns whether it is.
bool attach(FindAllocation find);

}  // namespace hetpipe::cuda::ptx
