#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# one_voice.sh HETPIPE mpirun|srun: what all ranks have to say alike is said once, by the first, and the
# launcher passes the exit code on.
set -uo pipefail
hetpipe=$1
launcher=$2
here=$(dirname "$0")
. "$here/../main/patience.sh"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0
mpi=pmix  # of srun

# Slurm would end tasks that have not begun to run, on a slow machine, when the first has left.
launch() { # ARGUMENT...: hetpipe under the launcher with 3 ranks
  case $launcher in
    mpirun) timeout -k 2 "$(patience 30)" mpirun --oversubscribe -n 3 "$hetpipe" "$@" ;;
    srun) "$here/slurm_one_node.sh" -k -m $mpi -n 3 "$hetpipe" "$@" ;;
  esac
}
expect() { # CODE TEXT ARGUMENT...
  local code=0 expected=$1 text=$2 times
  shift 2
  launch "$@" > "$folder/said" 2>&1 || code=$?
  if [ $code -eq 77 ]; then cat "$folder/said"; exit 77; fi
  times=$(grep -c -F -- "$text" "$folder/said")
  if [ $code -ne "$expected" ] || [ "$times" -ne 1 ]; then
    echo "hetpipe $*: exit code $code (expected $expected), '$text' $times times (expected once):"
    cat "$folder/said"
    failed=1
  fi
}

expect 0 "usage: hetpipe <subcommand>" --help
expect 0 "usage: hetpipe plan" plan --help
expect 2 "unknown subcommand 'plann'" plann
expect 2 "unknown option '--clustr'" plan --clustr c.toml
if [ "$launcher" = srun ]; then
  mpi=none  # MPI would end such ranks in its own words
  expect 2 "srun started 3 ranks without PMIx" train --plan p.toml --data d
fi
exit $failed
