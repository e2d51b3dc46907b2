// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

namespace hetpipe {

// Versions that a process runs with, by name: "hetpipe", "Open MPI", "HDF5", "kernel", ...
using Versions = std::map<std::string, std::string>;

// Of this process: its build, the C library, the kernel, the driver of its cards, and those of the
// libraries that a run may meet which are loaded, by the names of their files. `mpi`: what the MPI
// library says of itself; empty where MPI was not started.
Versions versions_here(const std::string& mpi);

// Ranks that differ in these do not work together, or not alike. Other differences are only worth
// knowing.
bool has_to_agree(const std::string& name);

// The name under which the file of a shared library is listed ("libdnnl.so.2.6": "oneDNN"); empty:
// it is not.
std::string library_name(const std::string& file);

}  // namespace hetpipe
