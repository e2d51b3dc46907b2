#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# disturbances.sh HETPIPE SOURCE_DIR [COUNT [SEED [EPOCHS]]]
# A job of `hetpipe sbatch` on the test cluster is disturbed COUNT times (default 3), by chance that follows from SEED:
# signals to its ranks and to its script, requeued, preempted, ranks killed and stopped, nodes without power, the server's
# too, which may come back later. It continues each time, on the nodes that are left, and ends: every start resumes where the newest
# checkpoint stands, and the last one holds every sample of EPOCHS once. Prints what happened, as a table.
# Exit code 77: this machine cannot do it (the reason is printed).
set -euo pipefail
hetpipe=$1
source=$2
count=${3:-3}
seed=${4:-1}
epochs=${5:-1}
. "$source/tests/slurm/functions.sh"
on_cluster "$0" "$@"
. "$source/tests/end-to-end/fashion_scratch.sh"
RANDOM=$seed

export PATH=${hetpipe%/*}:$PATH
cd "$folder"
hetpipe sbatch --cluster "$source/tests/slurm/emulated_pool.toml" --time "$(patience 30)" --script job.sh -- \
  --model lenet --profile "$source/tests/profiles/lenet.toml" --data fashion-mnist --epochs "$epochs" --seed "$seed" \
  --checkpoint-every 20 --keep 3 --timeout 15 --output run --trace off
job=$(sbatch --parsable --output "$folder/said" job.sh)

starts() { grep -c '^hetpipe trains' "$folder/said" 2> /dev/null || true; }
# A start after so many, and a wave of it; or the job's end.
started_again() {
  job_ended "$job" || awk -v before="$1" '/^hetpipe trains/ { ++n; wave = 0 } /^wave/ { wave = 1 }
    END { exit !(n > before && wave) }' "$folder/said"
}
goes_on() { within "$1" "another start and a wave of it" started_again "$2"; }
nodes_of_job() { scontrol show hostnames "$(squeue -h -j "$job" -o %N)"; }
one_of() { local all=("$@"); [ ${#all[@]} -gt 0 ] && echo "${all[RANDOM % ${#all[@]}]}"; }
a_rank() { one_of $(pgrep -x hetpipe); }
declare -A off=()

power_off() { # NODE
  stop_node "$1"
  off[$1]=yes
  [ $((RANDOM % 2)) -eq 0 ] || report_down "$1"
}
power_on() {
  local node
  for node in "${!off[@]}"; do
    unset "off[$node]"
    start_node "$node"
    echo "  $node is back"
  done
}
fail() {
  echo "$*" >&2
  tail -n 60 "$folder/said" >&2
  scontrol show job "$job" >&2
  tail -n 40 "$HETPIPE_TEST_CLUSTER/log/slurmctld" >&2
  exit 1
}

goes_on 60 0 || fail "no wave"
done_=0
while [ $done_ -lt "$count" ]; do
  sleep $((1 + RANDOM % 4)).$((RANDOM % 10))
  ! job_ended "$job" || fail "the training ended after $done_ of $count disturbances: give it more epochs"
  before=$(starts)
  started=$SECONDS
  case $((done_ == 0 ? 7 : RANDOM % 9)) in
    0) what="USR1 to all ranks"; scancel -s USR1 "$job" ;;
    1) what="USR1 to the script"; scancel --batch -s USR1 "$job" ;;
    2) what="scontrol requeue"; scontrol requeue "$job" ;;
    3) rank=$(a_rank) || continue; what="a rank is killed"; kill -KILL "$rank" 2> /dev/null || continue ;;
    4) rank=$(a_rank) || continue; what="a rank is stopped"; kill -STOP "$rank" 2> /dev/null || continue ;;
    5 | 6) [ ${#off[@]} -lt 2 ] || continue
      node=$(one_of $(nodes_of_job | grep -v node4)) || continue; what="$node loses power"; power_off "$node" ;;
    8) what="preempted by an urgent job"
      sbatch --parsable --partition urgent --exclusive --nodes=2-4 --time 1 --output /dev/null --wrap 'sleep 2' > /dev/null ;;
    7) nodes_of_job | grep -q node4 || continue; what="node4, the server's, loses power"; power_off node4 ;;
  esac
  goes_on 90 "$before" || fail "no wave after: $what"
  done_=$((done_ + 1))
  printf '%3d  %-34s resumed after %3d s on %s\n' $done_ "$what" $((SECONDS - started)) "$(squeue -h -j "$job" -o %N)"
  [ $((RANDOM % 3)) -eq 0 ] || power_on
done
power_on
wait_for_job "$job" 300 || fail "the job did not end well"

# Every start resumed from the newest checkpoint, and at the end nothing is missing.
grep -E '^(resuming from|checkpoint after wave)' said > "$folder/steps" || true
awk '
  /^checkpoint after wave/ { newest = $4 + 0 }
  /^resuming from/ {
    match($0, /after wave [0-9]+/); label = substr($0, RSTART + 11, RLENGTH - 11)
    # A rank 0 that was killed may have had no time to name the last one.
    if (label + 0 < newest) { print "resumed after wave " label ", the newest checkpoint being after " newest; bad = 1 }
    ++resumed
  }
  END { print resumed + 0 " starts resumed from the newest checkpoint"; exit bad }' "$folder/steps" ||
  fail "a start did not resume from the newest checkpoint"
consumed=$(hetpipe checkpoint info run | sed -n 's/^ *samples *\([0-9]*\) consumed.*/\1/p')
expected=$(awk -v e="$epochs" 'BEGIN { printf "%d", e * 60000 + 0.5 }')
hetpipe checkpoint verify run > "$folder/verified" || fail "$(cat "$folder/verified")"
[ "$consumed" = "$expected" ] || fail "the last checkpoint has consumed $consumed samples of $expected"
grep '^test accuracy' said
