#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# lost_ranks.sh HETPIPE SOURCE_DIR
# srun without --kill-on-bad-exit leaves the other ranks alone when one is gone. Over all nodes of the test cluster, a
# worker and rank 0 are killed, and the server's node loses its power: each time the step ends by itself, with a code that
# is not 0, and one line names the rank and its host. Exit code 77: this machine cannot do it (the reason is printed).
set -euo pipefail
hetpipe=$1
source=$2
. "$source/tests/slurm/functions.sh"
on_cluster "$0" "$@"
. "$source/tests/end-to-end/fashion_scratch.sh"
. "$source/tests/slurm/pool.sh"
plan_four_nodes "$hetpipe" "$source"
timeout=15  # s that a rank may be silent
failed=0

# lose LINE COMMAND...: trains, runs COMMAND while it does, and expects the line.
lose() {
  local line=$1 said=$folder/said run=$folder/run code=0 since
  shift
  rm -rf "$run" "$said"
  timeout -v -k 2 "$(patience 90)" srun --exclusive --nodes=4 --mpi=pmix -n 5 -m arbitrary -w node1,node2,node3,node3,node4 \
    "$hetpipe" train --plan "$folder/plan.toml" --cluster "$cluster" --profile "$profile" \
    --data fashion-mnist --epochs 20 --timeout "$timeout" --output "$run" > "$said" 2>&1 &
  local srun=$!
  if within 60 "the first wave" grep -q '^wave' "$said"; then
    since=$SECONDS
    "$@"
    wait $srun || code=$?
    echo "$*: code $code after $((SECONDS - since)) s"
    [ $code -ne 0 ] && ! grep -q '^timeout: sending signal' "$said" &&
      [ "$(grep -c '^rank ' "$run/train.log")" -eq 1 ] && grep -E "$line" "$run/train.log" && return 0
  fi
  kill -KILL $srun 2> /dev/null || true
  echo "expected a step that fails by itself and prints only '$line'; its output:"
  grep -v '^wave' "$said"
  failed=1
}
kill_rank() { kill -KILL "$(rank_pid hetpipe "$1")"; }

lose '^rank 3 on node3 \(node3:1, .* has died while ' kill_rank 3
lose '^rank 0 on node1 \(node1:0, .* has died while ' kill_rank 0
lose '^rank 4 on node4 \(parameter server 0 of node4, .* has not responded for ' stop_node node4
exit $failed
