#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# slurm_one_node.sh [-n N] [-t SECONDS] [-m MPI] [-k] COMMAND...
# Runs COMMAND with N tasks (default 5) under `srun --mpi=MPI` (default pmix) on one node of the test cluster.
# With -k the other tasks go on when one has left with another code than 0.
# Exit code: the command's; 77: this machine cannot do it (the reason is printed); 1: Slurm did not work; 124 or 137:
# srun did not end within SECONDS (default 60) of a usual machine.
set -euo pipefail
. "$(dirname "$0")/../main/patience.sh"
tasks=5
limit=60
mpi=pmix
kill=1
while getopts n:t:m:k option; do
  case $option in
    n) tasks=$OPTARG ;;
    t) limit=$OPTARG ;;
    m) mpi=$OPTARG ;;
    k) kill=0 ;;
    *) exit 2 ;;
  esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || { echo "usage: $0 [-n N] [-t SECONDS] [-m MPI] [-k] COMMAND..." >&2; exit 2; }
# srun of this Slurm may hang after its job is done and ignore TERM, hence -k.
exec "$(dirname "$0")/../slurm/cluster.sh" timeout -v -k 2 "$(patience "$limit")" \
  srun --nodelist=node3 --mpi="$mpi" --kill-on-bad-exit=$kill --overcommit -n "$tasks" "$@"
