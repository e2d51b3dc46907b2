#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# slurm_one_node.sh [-n N] [-t SECONDS] [-m MPI] COMMAND...
# Runs COMMAND with N tasks (default 5) under `srun --mpi=MPI` (default pmix) in a Slurm of this one machine: munged,
# slurmctld and one slurmd, in a temporary directory, without systemd, cgroups or anything of /etc.
# Exit code: the command's; 77: this machine cannot do it (the reason is printed); 1: Slurm did not work.
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin
export LC_ALL=C

tasks=5
limit=60
mpi=pmix
while getopts n:t:m: option; do
  case $option in
    n) tasks=$OPTARG ;;
    t) limit=$OPTARG ;;
    m) mpi=$OPTARG ;;
    *) exit 2 ;;
  esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || { echo "usage: $0 [-n N] [-t SECONDS] [-m MPI] COMMAND..." >&2; exit 2; }

skip() { echo "skipped: $*"; exit 77; }

# --- can this machine do it? ---------------------------------------------------------------------
for program in munged munge unmunge slurmctld slurmd srun scontrol sinfo; do
  command -v "$program" > /dev/null || skip "$program is not installed (packages slurm-wlm and munge)"
done
ldconfig -p | grep 'libpmix\.so ' > /dev/null || skip "libpmix.so is not installed (package libpmix-dev)"
[ "$(id -u)" -eq 0 ] || skip "slurmd starts tasks as root alone"
[ -n "$(ls -A /sys/fs/cgroup 2> /dev/null)" ] || skip "no cgroup file system at /sys/fs/cgroup, which slurmd asks for"

# One at a time: the address below is the machine's.
exec 9> /tmp/slurm1.lock
flock -w 300 9 || { echo "slurm_one_node: another one has been running for 300 s" >&2; exit 1; }

# Slurm looks addresses up such that loopback alone does not count (AI_ADDRCONFIG): it needs another one.
address_added=no
has_address() { getent ahostsv4 127.0.0.1 > /dev/null; }
if ! has_address; then
  command -v ip > /dev/null || skip "no IPv4 address but loopback, and ip is not installed (package iproute2)"
  ip address add 192.0.2.1/32 dev lo 2> /dev/null || skip "no IPv4 address but loopback, and none can be added"
  address_added=yes
fi

# --- a place for it; sockets want short paths -------------------------------------------------------
folder=$(mktemp -d /tmp/slurm1.XXXXXX)
chmod 755 "$folder"
mkdir "$folder"/{munge,state,spool,log,tmp}
chmod 700 "$folder/munge"
daemons=()  # pids, in the order of their start

stop_daemons() {
  local i pid
  for ((i = ${#daemons[@]} - 1; i >= 0; --i)); do
    pid=${daemons[i]}
    kill -TERM "$pid" 2> /dev/null || continue
    for _ in $(seq 50); do kill -0 "$pid" 2> /dev/null || continue 2; sleep 0.1; done
    kill -KILL "$pid" 2> /dev/null || true
  done
}
tear_down() {
  local code=$?
  trap - EXIT INT TERM
  [ ! -s "$folder/slurm.conf" ] || timeout -k 2 5 scancel --quiet --user="$(id -un)" > /dev/null 2>&1 || true
  stop_daemons
  [ "$address_added" = no ] || ip address del 192.0.2.1/32 dev lo 2> /dev/null || true
  rm -rf "$folder"
  exit $code
}
trap tear_down EXIT
trap 'exit 143' INT TERM

broken() {
  echo "slurm_one_node: $*" >&2
  for log in "$folder"/log/*; do
    [ ! -s "$log" ] || { echo "--- $(basename "$log")" >&2; tail -n 15 "$log" >&2; }
  done
  exit 1
}
within() { # SECONDS COMMAND...: until it succeeds
  local end=$((SECONDS + $1)); shift
  until "$@" > /dev/null 2>&1; do
    [ "$SECONDS" -lt "$end" ] || return 1
    sleep 0.1
  done
}
free_port() { # the first free TCP port from a random start
  local port=$((20000 + RANDOM % 10000))
  while (: < "/dev/tcp/127.0.0.1/$port") 2> /dev/null; do port=$((port + 1)); done
  echo "$port"
}

host=$(uname -n)
host=${host%%.*}
export SLURM_CONF=$folder/slurm.conf
controller_port=$(free_port)
node_port=$(free_port)
while [ "$node_port" = "$controller_port" ]; do node_port=$(free_port); done
# More CPUs than there may be: the tasks share what the machine has.
cat > "$SLURM_CONF" <<CONFIGURATION
ClusterName=one
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$controller_port
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/munge/socket
CredType=cred/munge
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
TmpFS=$folder/tmp
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
SlurmctldLogFile=$folder/log/slurmctld
SlurmdLogFile=$folder/log/slurmd
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
MpiDefault=$mpi
KillWait=2
MailProg=/bin/true
NodeName=$host NodeAddr=127.0.0.1 Port=$node_port CPUs=16 State=UNKNOWN
PartitionName=all Nodes=$host Default=YES MaxTime=60 State=UP
CONFIGURATION
# The default fence of this PMIx plug-in is no barrier on a busy machine, and ranks crash in MPI_Init.
echo "PMIxCollFence=ring" > "$folder/mpi.conf"

(umask 077 && head -c 128 /dev/urandom > "$folder/munge/key")
munged --foreground --force --socket="$folder/munge/socket" --key-file="$folder/munge/key" \
  --pid-file="$folder/munge/pid" --seed-file="$folder/munge/seed" --log-file="$folder/log/munged" \
  > /dev/null 2> "$folder/log/munged.errors" 9>&- &
daemons+=($!)
credential_works() { munge -n -S "$folder/munge/socket" | unmunge -S "$folder/munge/socket"; }
within 20 credential_works || broken "munged did not answer within 20 s"

slurmctld -D -f "$SLURM_CONF" > /dev/null 2> "$folder/log/slurmctld.errors" 9>&- &
daemons+=($!)
controller_up() { timeout -k 2 5 scontrol ping | grep ' is UP'; }
within 30 controller_up || broken "slurmctld did not answer within 30 s"

slurmd -D -N "$host" -f "$SLURM_CONF" > /dev/null 2> "$folder/log/slurmd.errors" 9>&- &
daemons+=($!)
node_idle() { [ "$(timeout -k 2 5 sinfo -h -N -o %T)" = idle ]; }
within 30 node_idle || broken "the node was not idle within 30 s"

# --- the command ------------------------------------------------------------------------------------
# All tasks share this machine, and its loopback may be its one interface.
export OMPI_MCA_btl_tcp_if_include=lo OMPI_MCA_oob_tcp_if_include=lo
code=0
started=$SECONDS
# srun of this Slurm may hang after its job is done and ignore TERM, hence -k.
timeout -k 2 "$limit" srun --mpi="$mpi" --kill-on-bad-exit=1 --overcommit -n "$tasks" "$@" 9>&- || code=$?
if { [ $code -eq 124 ] || [ $code -eq 137 ]; } && [ $((SECONDS - started)) -ge "$limit" ]; then
  broken "srun did not end within $limit s"
fi
exit $code
