#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# walls.sh ROOT: the walls and doors of docs/architecture.md, by looking at includes and calls.
#   walls.sh ROOT --self-test   each rule against a tree that breaks it, so that no rule can be blind
set -uo pipefail

check() ( # ROOT: prints every breach; 1 if there is one
  cd "$1" || exit 2
  folders=()
  for folder in base partitioner kernels runtime launch tests benchmarks; do
    [ -d "$folder" ] && folders+=("$folder")
  done
  breaches=0
  breach() { echo "$1"; breaches=$((breaches + 1)); }

  # door PATTERN ALLOWED WHAT: lines that match PATTERN stand in files whose path matches ALLOWED only.
  door() {
    local line
    while IFS= read -r line; do
      [[ ${line%%:*} =~ $2 ]] || breach "$line   <- $3 (only ${2})"
    done < <(grep -rnE --include='*.h' --include='*.cpp' --include='*.cu' -- "$1" "${folders[@]}")
  }
  # shut FOLDER PATTERN WHAT: no line below FOLDER matches PATTERN.
  shut() {
    local line
    [ -d "$1" ] || return 0
    while IFS= read -r line; do
      breach "$line   <- $3"
    done < <(grep -rnE --include='*.h' --include='*.cpp' --include='*.cu' -- "$2" "$1")
  }
  # wall FOLDER ALLOWED: what FOLDER includes of the project stands in folders that match ALLOWED.
  wall() {
    local line
    [ -d "$1" ] || return 0
    while IFS= read -r line; do
      [[ $line =~ \"($2)/ ]] || breach "$line   <- $1/ may include $2 alone"
    done < <(grep -rnE --include='*.h' --include='*.cpp' --include='*.cu' \
      '#include "(base|partitioner|kernels|runtime|launch|tests)/' "$1")
  }
  include() { echo "#include [<\"]$1"; }

  door "$(include 'mpi(-ext)?\.h')" '^runtime/transport/(mpi|nccl_module)|^tests/(ranks|unit/transport)/|^benchmarks/raw_mpi\.' 'MPI'
  door '\bMPIX?_[A-Z][A-Za-z_]*\(' '^runtime/transport/(mpi|nccl_module)|^tests/ranks/|^benchmarks/raw_mpi\.' 'MPI call'
  door "$(include 'pmix')" '^runtime/transport/pmix_exchange\.cpp' 'PMIx'
  door '\bPMIx_[A-Z][A-Za-z_]*\(' '^runtime/transport/pmix_exchange\.cpp' 'PMIx call'
  door "$(include '(hdf5|H5[A-Z][A-Za-z]*)\.h')" '^runtime/store/|^tests/unit/store/|^tests/fault/bad_data' 'HDF5'
  door '\bH5[A-Z][a-z_0-9]*\(' '^runtime/store/|^tests/unit/store/|^tests/fault/bad_data' 'HDF5 call'
  door "$(include 'toml\+\+')" '^partitioner/' 'toml++'
  door "$(include 'nlohmann/')" '^base/json\.cpp|^tests/unit/base/json_test' 'nlohmann-json'
  door "$(include '(oneapi/)?dnnl')" '^kernels/cpu/' 'oneDNN'
  door "$(include 'boost/')" '^launch/' 'Boost'
  door "$(include 'zlib\.h')" '^runtime/data/|^runtime/store/(checksum|packed_text)\.cpp|^tests/(unit/(data|store)/|fault/bad_data)' 'zlib'
  door "$(include '(jpeglib|jerror)\.h')" '^runtime/data/jpeg\.cpp|^tests/unit/data/made_images' 'libjpeg'
  door "$(include 'png\.h')" '^runtime/data/png\.cpp|^tests/unit/data/made_images' 'libpng'
  shut kernels/cuda/own "$(include '(cuda|cudnn|cublas)[A-Za-z_0-9]*\.h')" 'kernels see CUDA by way of simt.h alone'
  door "$(include '(cuda|cudnn|cublas)[A-Za-z_]*\.h')" '^kernels/cuda/|^runtime/transport/nccl|^tests/cuda/' 'CUDA'
  door "$(include 'cudnn[A-Za-z_]*\.h')" '^kernels/cuda/(dnn/|context|module)|^tests/cuda/double/' 'cuDNN'
  door "$(include 'cublas[A-Za-z_]*\.h')" '^kernels/cuda/(blas/|context|module)|^tests/cuda/double/' 'cuBLAS'
  door "$(include 'nccl\.h')" '^(runtime/transport|tests/cuda/double)/nccl' 'NCCL'
  door '\bnccl[A-Z][A-Za-z]*\(' '^(runtime/transport|tests/cuda/double)/nccl' 'NCCL call'
  door '(^|[^A-Za-z_.>])(std::|::)?(_exit|_Exit|exit|quick_exit)\(' \
    '^launch/|^runtime/training/stop\.cpp|^runtime/transport/(mpi|lifeline)|^runtime/store/hdf5_trial|^tests/|^benchmarks/' 'exit'
  door '\bgetenv\(' '^launch/|^base/cache|^runtime/transport/(mpi|nccl_module)|^tests/' 'environment'
  door "$(include '(sys/socket|netdb|netinet/[a-z0-9]+|arpa/inet)\.h')" '^runtime/transport/lifeline_socket|^tests/' 'socket'
  door '(^|[^A-Za-z_])std::(cout|cerr)\b' '^$' 'iostream output'

  wall base 'base'
  wall partitioner 'base|partitioner'
  wall kernels 'base|kernels'
  wall runtime/transport 'base|kernels|runtime/transport'
  wall runtime/model 'base|kernels|runtime/model'
  wall runtime/data 'base|runtime/data'
  wall runtime/store 'base|runtime/(data|store)'
  wall runtime/pipeline 'base|kernels|partitioner|runtime/(transport|model|data|store|pipeline)'
  wall runtime/sync 'base|kernels|partitioner|runtime/(transport|model|data|store|pipeline|sync)'
  wall runtime/monitoring 'base|runtime/monitoring'
  wall runtime/training 'base|kernels|partitioner|runtime'
  wall launch 'base|kernels|partitioner|runtime|launch'

  # Types of one name in one namespace are one to the linker, which merges their functions: each is defined once. (Tests link apart.)
  while IFS= read -r line; do breach "$line   <- one definition for each name"; done < <(
    find "${folders[@]}" -path tests -prune -o \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' \) -print | sort | xargs -r awk '
      FNR == 1 { depth = 0 }
      /^(inline )?namespace.*\{$/ { names[++depth] = $0; next }
      /^\}  \/\/ namespace/ { if (depth) --depth; next }
      /^(struct|class|enum class) [A-Za-z0-9_]+[^;:]*( : [^{]*)?\{/ {
        space = ""
        for (i = 1; i <= depth; ++i) {
          if (names[i] ~ /^namespace \{/) next
          space = space names[i]
        }
        name = $1 == "enum" ? $3 : $2
        if ((space, name) in seen) print FILENAME ": " name " is also in " seen[space, name]
        seen[space, name] = FILENAME
      }')

  [ $breaches -eq 0 ]
)

self_test() {
  local failed=0 path line
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  while IFS='|' read -r path line; do
    rm -rf "$folder/tree"
    mkdir -p "$folder/tree/base" "$folder/tree/$(dirname "$path")"
    echo "$line" > "$folder/tree/$path"
    if check "$folder/tree" > /dev/null; then echo "not noticed: $path: $line"; failed=1; fi
  done << 'BREACHES'
kernels/a.cpp|#include <mpi.h>
runtime/sync/a.cpp|  MPI_Barrier(MPI_COMM_WORLD);
benchmarks/push_pull.cpp|  MPI_Barrier(MPI_COMM_WORLD);
runtime/pipeline/a.cpp|#include <hdf5.h>
launch/a.cpp|  H5Fclose(file);
launch/a.cpp|#include <toml++/toml.h>
launch/a.cpp|#include <nlohmann/json.hpp>
base/json.h|#include <nlohmann/json_fwd.hpp>
runtime/model/a.cpp|#include <oneapi/dnnl/dnnl.hpp>
base/a.cpp|#include <boost/program_options.hpp>
runtime/store/a.cpp|#include <zlib.h>
runtime/data/a.cpp|#include <jpeglib.h>
launch/a.cpp|#include <png.h>
runtime/pipeline/a.cpp|#include <cuda_runtime.h>
kernels/cuda/own/a.cu|#include <cuda_fp16.h>
kernels/cuda/own/a.cu|#include <cudnn.h>
kernels/cuda/dnn/a.cpp|#include <cublasLt.h>
kernels/cuda/a.cpp|#include <nccl.h>
runtime/sync/a.cpp|  ncclSend(memory, bytes, ncclInt8, 0, communicator, stream);
launch/a.cpp|#include <mpi-ext.h>
launch/a.cpp|#include <pmix.h>
runtime/transport/mpi.cpp|  PMIx_Fence(nullptr, 0, nullptr, 0);
runtime/pipeline/a.cpp|  if (MPIX_Query_cuda_support() == 1) return;
base/a.cpp|  std::exit(1);
runtime/sync/a.cpp|  _exit(1);
runtime/transport/wait.cpp|  std::_Exit(1);
runtime/transport/threads.cpp|#include <sys/socket.h>
launch/a.cpp|#include <netinet/tcp.h>
kernels/a.cpp|  std::getenv("HOME");
runtime/sync/a.cpp|  std::cout << 1;
base/a.h|#include "kernels/device.h"
partitioner/a.h|#include "runtime/model/model.h"
kernels/a.h|#include "partitioner/plan/plan.h"
runtime/transport/a.h|#include "runtime/model/model.h"
runtime/model/a.h|#include "partitioner/plan/plan.h"
runtime/data/a.h|#include "kernels/device.h"
runtime/store/a.h|#include "runtime/pipeline/stage.h"
runtime/pipeline/a.h|#include "runtime/sync/wave_clock.h"
runtime/sync/a.h|#include "launch/command/options.h"
runtime/monitoring/a.h|#include "runtime/pipeline/stage.h"
kernels/a.cpp|#include "tests/cuda/simt/simt_host.h"
launch/a.cpp|#include "tests/unit/kernels/layer_run.h"
BREACHES
  rm -rf "$folder/tree"
  mkdir -p "$folder/tree/base" "$folder/tree/launch"
  printf 'namespace hetpipe {\nstruct Twice {\n' | tee "$folder/tree/base/a.h" > "$folder/tree/launch/a.cpp"
  if check "$folder/tree" > /dev/null; then echo "not noticed: two types of one name"; failed=1; fi
  return $failed
}

if [ "${2:-}" = --self-test ]; then self_test; else check "$1"; fi
