#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# faults.sh PROGRAM FOLDER
# Plants a fault of each kind into the PTX of FOLDER and runs PROGRAM's tests of layer norm on it: a barrier that is left out,
# a shuffle whose mask lacks a lane, a bound that is one too large. Each must be found, and PTX without a fault must pass.
set -euo pipefail
program=$1
ptx=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export GTEST_FILTER='OwnLayerNorm*'
unset HETPIPE_PTX_SEEN

# run_with NAME SED: of PTX that is edited so, into NAME.log; its exit code.
run_with() {
  mkdir "$work/$1"
  cp "$ptx/layer_norm.ptx" "$work/$1"
  sed -i -E "$2" "$work/$1/layer_norm.ptx"
  HETPIPE_PTX=$work/$1 "$program" > "$work/$1.log" 2>&1
}

# expect_found NAME SED WORDS
expect_found() {
  if run_with "$1" "$2"; then
    echo "$1: not found"
    exit 1
  fi
  if cmp -s "$ptx/layer_norm.ptx" "$work/$1/layer_norm.ptx" || ! grep -qF "$3" "$work/$1.log"; then
    tail -n 30 "$work/$1.log"
    echo "$1: the tests failed, but not for \"$3\""
    exit 1
  fi
  echo "$1: found: $(grep -m 1 -F "$3" "$work/$1.log")"
}

run_with none '' || { tail -n 30 "$work/none.log"; echo "a fault where none was planted"; exit 1; }
expect_found no-barrier '/bar[.]sync/d' 'shared offset'
expect_found wrong-mask 's/(shfl[.]sync.*), [^,]*;/\1, 2147483647;/' 'is not in its own mask 7fffffff'
expect_found off-by-one 's/setp[.]ge[.]s64/setp.gt.s64/' 'outside of every allocation'
