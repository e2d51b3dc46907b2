// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "tests/cuda/ptx/module.h"

namespace hetpipe::cuda::ptx {

// What nvcc writes of kernels that call no functions. UserError at anything else, with file and
// line.
std::unique_ptr<const Module> parse_module(std::string name, std::string text);
std::unique_ptr<const Module> read_module(const std::string& path);

}  // namespace hetpipe::cuda::ptx
