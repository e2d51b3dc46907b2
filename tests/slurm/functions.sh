# SPDX-License-Identifier: Apache-2.0
# Sourced by commands that run under cluster.sh. Seconds are whole, and those of a usual machine.
. "$(dirname "${BASH_SOURCE[0]}")/../main/patience.sh"

# on_cluster "$0" "$@": starts the script again under cluster.sh, unless it runs there.
on_cluster() {
  [ -n "${HETPIPE_TEST_CLUSTER:-}" ] || exec "$(dirname "${BASH_SOURCE[0]}")/cluster.sh" "$@"
}

# start_node NODE: connects and boots it. Does not wait for Slurm to notice (node_is NODE idle).
start_node() {
  local node=$1
  ip netns add "$node"
  ip link add "$node" type veth peer name eth0 address "02:00:00:00:00:0${node#node}" netns "$node"
  ip link set "$node" master bridge0 up
  ip -n "$node" -batch - <<COMMANDS
link set lo up
address add 198.51.100.${node#node}/24 dev eth0
link set eth0 up
COMMANDS
  mkdir -p "/run/tmp/$node" "/run/spool/$node"
  # The shell stays as the node's first process, which has to reap those that lost their parents. Its own parent is the
  # login node, whoever called.
  ( nsenter --net="/run/netns/$node" unshare --mount --uts --ipc --pid --fork --kill-child --mount-proc bash -c '
    hostname "$1"
    mount -t tmpfs tmpfs /dev/shm
    slurmd -D -N "$1" &
    wait' node "$node" > /dev/null 2> "/run/log/slurmd.$node.errors" &
    echo $! > "/run/$node.pid" )
}

# stop_node NODE: a power cut. All its processes end at once, and nobody hears of it.
stop_node() {
  local node=$1 pid first
  pid=$(cat "/run/$node.pid")
  first=$(cat "/proc/$pid/task/$pid/children")
  ip link delete "$node"
  kill -KILL $first  # which ends after all the others
  within 5 "the end of $node" eval "! kill -0 $pid"
  ip netns delete "$node"
}

# report_down NODE: slurmctld notices at once, and not when it has missed the node for 15 to 30 s.
report_down() { timeout -k 2 "$(patience 10)" scontrol update "nodename=$1" state=down reason="power cut"; }

# node_is NODE STATE: one of sinfo's long forms (idle, allocated, down ...).
node_is() { [ "$(timeout -k 2 "$(patience 5)" sinfo -h -N -n "$1" -o %T | sort -u)" = "$2" ]; }

# job_states JOB: of all its components, each state once.
job_states() { timeout -k 2 "$(patience 5)" scontrol -o show job "$1" | sed -n 's/.* JobState=\([A-Z_]*\) .*/\1/p' | sort -u; }

# wait_for_job JOB SECONDS: until it has ended for good; 1 (and what Slurm knows of it): it has not, or not as COMPLETED.
wait_for_job() {
  within "$2" "the end of job $1" job_ended "$1" || { scontrol show job "$1" >&2; return 1; }
  [ "$(job_states "$1")" = COMPLETED ] || { echo "job $1 is not COMPLETED:" >&2; scontrol show job "$1" >&2; return 1; }
}
job_ended() {
  local states
  states=$(job_states "$1") && [ -n "$states" ] &&
    ! grep -q -v -E '^(BOOT_FAIL|CANCELLED|COMPLETED|DEADLINE|FAILED|NODE_FAIL|OUT_OF_MEMORY|TIMEOUT)$' <<< "$states"
}

# rank_pid PROGRAM RANK: of a rank that srun has started, on any node, as the login node counts processes.
rank_pid() {
  local process
  for process in /proc/[0-9]*; do
    [ "$(cat "$process/comm" 2> /dev/null)" = "$1" ] || continue
    if grep -q -z -x "SLURM_PROCID=$2" "$process/environ" 2> /dev/null; then echo "${process#/proc/}"; return 0; fi
  done
  return 1
}
