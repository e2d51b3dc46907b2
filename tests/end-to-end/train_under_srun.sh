#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# train_under_srun.sh HETPIPE SOURCE_DIR
# The plan of the quick start under `srun --mpi=pmix` of a Slurm of one node, and under mpirun: both end with the
# same weights. Exit code 77: this machine cannot do it (the reason is printed).
set -euo pipefail
hetpipe=$1
source=$2
. "$source/tests/end-to-end/fashion_scratch.sh"
plan_quickstart "$hetpipe" "$source"
train() {
  local output=$1
  shift
  "$@" "$hetpipe" train --plan "$folder/plan.toml" --cluster "$cluster" --profile "$profile" \
    --data fashion-mnist --epochs 0.05 --output "$folder/$output" > "$folder/$output.txt" 2>&1 && return 0
  local code=$?
  cat "$folder/$output.txt"
  exit "$code"
}
train srun "$source/tests/end-to-end/slurm_one_node.sh" -n 5 -t 100
train mpirun mpirun --oversubscribe -n 5

result() { grep '^test accuracy' "$folder/$1.txt"; }
echo "srun:   $(result srun)"
echo "mpirun: $(result mpirun)"
[ -n "$(result srun)" ] && [ "$(result srun)" = "$(result mpirun)" ] ||
  { echo "the results differ, or there is none:"; cat "$folder/srun.txt" "$folder/mpirun.txt"; exit 1; }
