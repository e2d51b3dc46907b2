#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# rehearsal_rows.sh ROOT: the rows of the rehearsal's last table say how many seeds reached the target, and mark what leaves any out.
set -uo pipefail
# shellcheck source=/dev/null
source "$1/benchmarks/tables/rehearsal.sh"

failed=0
expect() { # EXPECTED LINE...: the rows of these lines
  local expected=$1 rows
  shift
  rows=$(printf '%s\n' "$@" | race_rows)
  [ "$rows" = "$expected" ] && return
  printf 'expected\n%s\nbut got\n%s\n' "$expected" "$rows"
  failed=1
}

# By hand: 11 s and 110 samples of bsp; 22 s and 176 of d0; one seed of d4, none of d32.
expect '| c-bsp@a | 10, 12 | 2 of 2 | 11 | 110 | 1.00 | 1.00 | 1.00 |
| c-d0@a | 20, 24 | 2 of 2 | 22 | 176 | 2.00 | 1.60 | 1.25 |
| c-d4@a | 33, - | 1 of 2 | 33 * | 220 * | 3.00 * | 2.00 * | 1.50 * |
| c-d32@a | -, - | 0 of 2 | - | - | - | - | - |' \
  'c-bsp@a 10 100' 'c-bsp@a 12 120' 'c-d0@a 20 160' 'c-d0@a 24 192' 'c-d4@a 33 220' 'c-d4@a - -' 'c-d32@a - -' 'c-d32@a - -'

# What is divided by a mean that leaves seeds out is marked as well.
expect '| c-d0@a | 20 | 1 of 1 | 20 | 200 | 2.00 * | 2.00 * | 1.00 * |
| c-bsp@a | 10, - | 1 of 2 | 10 * | 100 * | 1.00 * | 1.00 * | 1.00 * |' \
  'c-d0@a 20 200' 'c-bsp@a 10 100' 'c-bsp@a - -'

# Data parallelism never there: nothing to divide by.
expect '| c-d0@a | 20 | 1 of 1 | 20 | 200 | - | - | - |
| c-bsp@a | - | 0 of 1 | - | - | - | - | - |' 'c-d0@a 20 200' 'c-bsp@a - -'
exit $failed
