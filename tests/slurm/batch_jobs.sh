#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# batch_jobs.sh HETPIPE SOURCE_DIR BAD_HOST
# From `hetpipe sbatch` to a trained model on the test cluster, over all four nodes: whole nodes under srun, which rehearse
# a preemption on the way; a heterogeneous job, one MPI world; mpirun. Each ends once the target accuracy is reached. A
# rank leaves later than the others, as on a busy node: the exit code is theirs all the same.
# Exit code 77: this machine cannot do it (the reason is printed).
set -euo pipefail
hetpipe=$1
source=$2
bad_host=$3
. "$source/tests/slurm/functions.sh"
on_cluster "$0" "$@"
. "$source/tests/end-to-end/fashion_scratch.sh"
export PATH=${hetpipe%/*}:$PATH
cd "$folder"

write() { # NAME [OPTION...]: its script
  local name=$1
  shift
  hetpipe sbatch --cluster "$source/tests/slurm/emulated_pool.toml" --time "$(patience 5)" --script "$name.sh" --name "$name" "$@" > /dev/null
}
training=(--model lenet --profile "$source/tests/profiles/lenet.toml" --data fashion-mnist --epochs 0.4 --target-accuracy 0.7 --evaluate-every 30 --trace off)
write whole -- "${training[@]}" --rehearse-preemption 40
write parts --heterogeneous -- "${training[@]}"
write under_mpirun --launcher mpirun -- "${training[@]}"

for name in whole parts under_mpirun; do
  job=$(LD_PRELOAD=$bad_host BAD_HOST=late sbatch --parsable --output "$name.said" "$name.sh")
  wait_for_job "$job" 150 || { cat "$name.said"; exit 1; }
  for wanted in 'parameter server 0 on node4' 'node3:1' 'with 5 ranks over' 'stopped after wave .*: the target was reached'; do
    grep -q -- "$wanted" "$name.said" || { echo "$name: not said: $wanted"; cat "$name.said"; exit 1; }
  done
  echo "$name: $(grep '^target' "$name.said"), in $(grep -c '^hetpipe trains' "$name.said") starts"
done
for wanted in 'rehearsed preemption after 40 waves' 'start 2, on' 'resuming from .* after wave'; do
  grep -q -- "$wanted" whole.said || { echo "whole: not said: $wanted"; cat whole.said; exit 1; }
done
