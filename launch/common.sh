# SPDX-License-Identifier: Apache-2.0
# Sourced by launch/quickstart, launch/bundle, launch/cuda12 and tests/run, and in a bundle by hetpipe-quickstart.

say() { printf '== %s\n' "$*"; }
die() { printf '%s\n' "$*" >&2; exit "${exit_code:-2}"; }

# Packages that the build needs, each with the reason that is printed before it is installed.
build_packages=(
  "build-essential: compiler"
  "cmake: configures the build"
  "ninja-build: builds"
  "pkg-config: finds libraries"
  "libopenmpi-dev: MPI between ranks"
  "libpmix-dev: ranks find each other through their launcher, and srun --mpi=pmix loads its unversioned library"
  "openmpi-bin: mpirun"
  "libhdf5-dev: checkpoints and traces"
  "libboost-program-options-dev: command line"
  "libtomlplusplus-dev: cluster, profile and plan files"
  "nlohmann-json3-dev: JSON output"
  "libdnnl-dev: oneDNN, the CPU device"
  "ocl-icd-libopencl1: loaded by oneDNN"
  "zlib1g-dev: gzipped data sets"
  "libjpeg62-turbo-dev: JPEG images of data sets"
  "libpng-dev: PNG images of data sets"
  "dataset-fashion-mnist: data set of the quick start and the tests"
)
test_packages=(
  "libgtest-dev: GoogleTest"
  "libgmock-dev: GoogleTest's matchers"
  "clang: compiles the sanitizer builds"
  "libclang-rt-14-dev: sanitizers"
  "llvm: names the functions in their reports"
  "ccache: compiles once what several builds share"
  "slurm-wlm: Slurm on virtual nodes, to test srun and jobs"
  "munge: authentication of that Slurm"
  "iproute2: the network of those nodes"
  "shellcheck: reads the scripts of hetpipe sbatch, and our own"
)
bundle_packages=(
  "patchelf: makes programs and libraries find each other in the bundle"
  "binutils: shows which glibc and libstdc++ they need"
  "xz-utils: packs"
)

cuda12_packages=(
  "clang-19: compiles kernels with CUDA 12.9, whose nvcc is not published in parts"
  "python3-pip: fetches the parts"
  "unzip: unpacks them"
)

installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2> /dev/null)" = installed ]; }

# install_packages "NAME: WHY"...: installs those that are missing, as root or with sudo.
install_packages() {
  command -v apt-get > /dev/null ||
    die "apt-get not found (packages are installed only on Debian and its derivatives). Install by hand: ${*%%:*}"
  local line name missing=()
  for line in "$@"; do
    name=${line%%:*}
    if ! installed "$name"; then
      missing+=("$name")
      say "missing: $line"
    fi
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo > /dev/null ||
      die "packages are missing, and there is neither root access nor sudo. As root: apt-get install ${missing[*]}"
    as_root=(sudo)
  fi
  say "installing ${missing[*]}"
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
}

# unpack_package NAME FOLDER: below FOLDER, without installing it: some packages start a service.
unpack_package() {
  local name=$1 folder=$2
  [ ! -e "$folder/$name.unpacked" ] || return 0
  mkdir -p "$folder"
  (
    cd "$folder" && apt-get download -qq "$name" > download.log 2>&1 && dpkg-deb -x "$name"_*.deb . && rm -f "$name"_*.deb && touch "$name.unpacked"
  )
}

# mpirun refuses root without these.
allow_root_to_mpirun() {
  if [ "$(id -u)" -eq 0 ]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  fi
}
