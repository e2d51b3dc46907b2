#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# doctor_under_srun.sh HETPIPE: `hetpipe doctor` under srun, with PMIx and without, which is said once with what this
# Slurm offers. Exit code 77: this machine cannot do it (the reason is printed).
set -uo pipefail
hetpipe=$1
here=$(dirname "$0")
said=$(mktemp)
trap 'rm -f "$said"' EXIT
failed=0
expect() { # CODE MPI TEXT...
  local code=0 expected=$1 mpi=$2 text
  shift 2
  "$here/slurm_one_node.sh" -m "$mpi" -n 3 "$hetpipe" doctor > "$said" 2>&1 || code=$?
  if [ $code -eq 77 ]; then cat "$said"; exit 77; fi
  for text in "$@"; do
    [ "$(grep -c -F -- "$text" "$said")" -eq 1 ] || code="no '$text'"
  done
  [ "$code" = "$expected" ] || { echo "FAILED: $code (expected $expected): $(cat "$said")"; failed=1; }
}
expect 0 pmix "srun: 3 ranks on 1 host" "3 of 3 pairs answer" "Nothing that was looked at stands in the way"
expect 2 none "mistake: srun started 3 ranks without PMIx" "srun --mpi=pmix -K -n 3 $hetpipe doctor" \
  "This Slurm offers: MPI plugin types are"
exit $failed
