// SPDX-License-Identifier: Apache-2.0
#include "launch/doctor/versions.h"
#include "runtime/training/build_hash.h"

#include <gnu/libc-version.h>
#include <link.h>
#include <sys/utsname.h>

#include <array>
#include <filesystem>
#include <utility>

#include "base/hash.h"
#include "launch/probe/facts.h"

namespace hetpipe {
namespace {

namespace fs = std::filesystem;

struct Library {
  const char* begins;  // its file's name, up to ".so"
  const char* name;
  bool agree;
};
constexpr std::array kLibraries{
    Library{"libmpi", "MPI library", true},   Library{"libpmix", "PMIx", true},
    Library{"libhdf5_serial", "HDF5", true},  Library{"libhdf5", "HDF5", true},
    Library{"libdnnl", "oneDNN", true},       Library{"libcudart", "CUDA runtime", true},
    Library{"libcudnn", "cuDNN", true},       Library{"libcublas", "cuBLAS", true},
    Library{"libcublasLt", "cuBLASLt", true}, Library{"libnccl", "NCCL", true},
    Library{"libz", "zlib", false},           Library{"libjpeg", "libjpeg", false},
    Library{"libpng16", "libpng", false},     Library{"libgomp", "OpenMP", false},
    Library{"libstdc++", "libstdc++", false},
};

int note_library(dl_phdr_info* info, std::size_t, void* versions) {
  if (info->dlpi_name == nullptr || *info->dlpi_name == '\0') return 0;
  std::error_code error;
  const fs::path file = fs::canonical(info->dlpi_name, error);
  if (error) return 0;
  const std::string name = library_name(file.filename().string());
  if (!name.empty()) (*static_cast<Versions*>(versions))[name] = file.filename().string();
  return 0;
}

}  // namespace

std::string library_name(const std::string& file) {
  const std::string stem = file.substr(0, file.find(".so"));
  for (const Library& library : kLibraries) {
    if (stem == library.begins) return library.name;
  }
  return {};
}

bool has_to_agree(const std::string& name) {
  if (name == "hetpipe" || name == "MPI") return true;
  for (const Library& library : kLibraries) {
    if (name == library.name) return library.agree;
  }
  return false;
}

Versions versions_here(const std::string& mpi) {
  Versions versions;
  ::dl_iterate_phdr(note_library, &versions);
  versions["hetpipe"] = "build " + to_hex(build_hash());
  versions["glibc"] = ::gnu_get_libc_version();
  utsname system{};
  if (::uname(&system) == 0) versions["kernel"] = system.release;
  if (!mpi.empty()) versions["MPI"] = mpi;
  if (const std::string driver = driver_version(); !driver.empty()) versions["driver"] = driver;
  return versions;
}

}  // namespace hetpipe
