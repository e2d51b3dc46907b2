// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

// Names of functions by their address, those of anonymous namespaces too: from the symbol tables of
// the program and of its libraries, which must not be stripped.
namespace hetpipe::cuda::ptx {

// Mangled; empty where there is none.
std::string symbol_at(const void* address);

// A mangled name as every compiler writes it: nvcc calls a source's anonymous namespace otherwise
// than others do.
std::string without_file(std::string mangled);

}  // namespace hetpipe::cuda::ptx
