#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# doctor.sh HETPIPE SOURCE_DIR
# `hetpipe doctor` under srun, over all nodes of the test cluster: as it should be; without PMIx, which is said once with
# what this Slurm offers; ranks and devices of the allocation; and with a firewall between two nodes that leaves Slurm alone and drops what MPI sends. Exit
# code 77: this machine cannot do it (the reason is printed).
set -euo pipefail
hetpipe=$1
source=$2
. "$source/tests/slurm/functions.sh"
on_cluster "$0" "$@"
said=$(mktemp)
trap 'rm -f "$said"' EXIT
failed=0
kill=-K

doctor() { # CODE MPI TEXT...: a rank on each node; each text once
  local code=0 expected=$1 mpi=$2 text
  shift 2
  timeout -v -k 2 "$(patience 60)" srun --nodes=4 --exclusive --mpi="$mpi" "$kill" -n 4 "$hetpipe" doctor --timeout 5 "${more[@]}" > "$said" 2>&1 || code=$?
  for text in "$@"; do
    [ "$(grep -c -F -- "$text" "$said")" -eq 1 ] || code="not once '$text'"
  done
  [ "$code" = "$expected" ] || { echo "FAILED: $code (expected code $expected): $(cat "$said")"; failed=1; }
}

more=(--cluster slurm --pool "$source/tests/slurm/emulated_pool.toml")
doctor 0 pmix "emulated_pool.toml: 3 of 4 devices have a rank, 1 ranks have no device" \
  "note: Slurm job 1, $source/tests/slurm/emulated_pool.toml: node3 has 2 devices and 1 rank"
more=(--cluster slurm)  # the cluster's GPUs are names, which no driver knows
doctor 2 pmix "mistake: node3: has 2 devices of type a100 in Slurm job 2 (its ranks see no GPU)" \
  "mistake: node1: has 1 device of type titanv in Slurm job 2 (its ranks see no GPU)" \
  "mistake: node2: has 1 device of type titanv"
more=()
doctor 0 pmix "srun: 4 ranks on 4 hosts" "6 of 6 pairs answer" "No problem was found."
kill=--kill-on-bad-exit=0  # ranks that have not met may not have begun to run when the first has left
doctor 2 none "mistake: srun started 4 ranks without PMIx" "srun --mpi=pmix -K -n 4 $hetpipe doctor" \
  "This Slurm offers: MPI plugin types are"
kill=-K

export OMPI_MCA_btl_tcp_port_min_v4=21000 OMPI_MCA_btl_tcp_port_range_v4=100  # from which nobody connects (ip_local_port_range)
firewall() { # NODE ADDRESS: who connects from there to MPI on NODE gets no answer
  ip -n "$1" rule add to "$2" ipproto tcp sport 21000-21099 blackhole
}
firewall node2 198.51.100.3
firewall node3 198.51.100.2
doctor 3 pmix "failure: rank 1 on node2 <-> rank 2 on node3: no answer within 5 s" "5 of 6 pairs answer"
[ "$(grep -c '^failure: ' "$said")" -eq 1 ] || { echo "FAILED: more than one failure: $(cat "$said")"; failed=1; }
exit $failed
