#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# tests/cuda/coverage.sh [BUILD] [--lines]
# Which lines of the CUDA device's host code (kernels/cuda, without own/, whose coverage is that of its PTX) the
# tests without a GPU execute: builds the device on its double and the plans of the real cuDNN with gcov in BUILD
# (build/coverage), runs their tests and prints a table; --lines: and the lines that none executes.
# Exit code 1 below 90 % in all.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
build=build/coverage lines=no
for word in "$@"; do
  case $word in
    --lines) lines=yes ;;
    -*) echo "usage: tests/cuda/coverage.sh [BUILD] [--lines]" >&2; exit 2 ;;
    *) build=$word ;;
  esac
done
mkdir -p "$build"
build=$(realpath "$build")
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1

cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS="--coverage -O1" -DCMAKE_CXX_COMPILER_LAUNCHER="$(type -P ccache || true)" \
  > "$build/configure.log" || { tail -n 20 "$build/configure.log" >&2; exit 2; }
cmake --build "$build" --target cuda_double_test cuda_plans_test kernel_plans_test > "$build/build.log" 2>&1 ||
  { tail -n 30 "$build/build.log" >&2; exit 2; }
find "$build" -name '*.gcda' -delete
# What fails here is ctest's to say.
(cd "$build" && ctest -R '^(cuda_double_(test|mig|contexts|exclusive|engines|unfused|pieces|old|described|no_ipc)|cuda_plans_test|kernel_plans_test.*)$' -LE gpu) > "$build/tests.log" 2>&1 ||
  echo "note: not all tests passed: $build/tests.log" >&2

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# gcov leaves out what it does not find. Sources may be named relative to the build folder, by a cache of compilations.
mkdir "$work/data"
ln -s "$PWD/kernels" "$work/kernels"
find "$build" -name '*.gcda' | while read -r data; do
  folder=$work/data/$(md5sum <<< "$data" | cut -c 1-12)
  mkdir "$folder"
  (cd "$folder" && gcov -p "$data" > /dev/null 2>&1 || true)
done
# A line counts as executed where any program executed it.
find "$work" -name '*.gcov' -exec cat {} + | awk -F : -v root="$PWD/" -v lines=$lines '
  $2 + 0 == 0 {
    if ($3 == "Source") {
      file = $4
      sub("^" root, "", file)
      sub("^([.][.]/)+", "", file)
      ours = file ~ /^kernels\/cuda\// && file !~ /^kernels\/cuda\/own\//
    }
    next
  }
  ours && $1 !~ /^ *-$/ {
    key = file ":" $2 + 0
    if (!(key in hit)) { hit[key] = 0; total[file]++; all++ }
    if ($1 !~ /[#=]/ && !hit[key]) { hit[key] = 1; seen[file]++; some++ }
  }
  END {
    if (all == 0) { print "no line of kernels/cuda was compiled with gcov"; exit 2 }
    print "| file | lines | executed | % |\n|---|---|---|---|"
    for (file in total) printf "| %s | %d | %d | %.1f |\n", file, total[file], seen[file], 100 * seen[file] / total[file] | "sort"
    close("sort")
    printf "| all | %d | %d | %.1f |\n", all, some, 100 * some / all
    if (lines == "yes") {
      for (key in hit) if (!hit[key]) print "not executed: " key | "sort -t : -k 2,2 -k 3,3n"
      close("sort -t : -k 2,2 -k 3,3n")
    }
    exit some / all < 0.9
  }'
