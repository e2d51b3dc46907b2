#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# convergence.sh HETPIPE SOURCE_DIR
# A small part of the table convergence (benchmarks/README.md): four stages on a fifth of an epoch of Fashion-MNIST. At a
# usual rate every system learns as the synchronous one does, but for three points; at a high rate prediction helps.
# Exit code 77: this machine cannot do it (the reason is printed).
set -euo pipefail
hetpipe=$1
source=$2
. "$source/tests/end-to-end/fashion_scratch.sh"
cluster=$source/benchmarks/convergence/pool.toml
profile=$source/tests/profiles/lenet-bn.toml

# compare NAME RATE SEEDS PLAN...
compare() {
  local name=$1 rate=$2 seeds=$3
  shift 3
  "$source/benchmarks/plans" "$hetpipe" "$cluster" "$profile" sgd-momentum 32 "$folder/plans-$name" "$@"
  "$hetpipe" compare --cluster "$cluster" --profile "$profile" --data fashion-mnist --seeds "$seeds" \
    --plans "$(ls "$folder/plans-$name"/*.toml | paste -sd ,)" --epochs 0.2 --evaluations 1 --learning-rate "$rate" \
    --output "$folder/$name" -- --trace off > "$folder/$name.txt" 2>&1 || { cat "$folder/$name.txt"; exit 1; }
  sed -n '/^|/p' "$folder/$name/compare.md" | cut -d '|' -f 1-3,6
}

compare usual 0.01 1 synchronous pipedream pipedream-2bw vanilla spectrain xpipe timeprest timeprest-mixed hetpipe-d0 hetpipe-d4
"$source/benchmarks/convergence/claims" "$folder/usual/compare.md" 3
compare high 0.2 1,2 vanilla spectrain xpipe
"$source/benchmarks/convergence/claims" "$folder/high/compare.md" 0
