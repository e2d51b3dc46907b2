#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# doubles.sh FOLDER
# The kernel that sums squares where doubles are slow has no instruction on doubles in the PTX of FOLDER; the other one, which
# shows that they would be found, has.
set -euo pipefail

# doubles_in NAME: instructions on doubles of the entry whose name has NAME in it.
doubles_in() {
  local text
  text=$(sed -n "/[.]entry .*$1/,/^}/p" "$2/flat.ptx")
  [ -n "$text" ] || { echo "$2/flat.ptx: there is no entry $1" >&2; return 1; }
  grep -cE '^\s*(@%p[0-9]+ )?[a-z]+[a-z0-9_.]*[.]f64' <<< "$text" || true
}

slow=$(doubles_in squares_by_integers_kernel "$1")
fast=$(doubles_in '[0-9]squares_kernel' "$1")
echo "squares_by_integers_kernel: $slow instructions on doubles; squares_kernel: $fast"
[ "$slow" -eq 0 ] && [ "$fast" -gt 0 ]
