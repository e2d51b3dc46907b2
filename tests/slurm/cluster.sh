#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# cluster.sh COMMAND [ARGUMENT...]
# Runs COMMAND as on the login node of a Slurm cluster of its own: munged, slurmctld and one slurmd per virtual node,
# without systemd, cgroups or anything of /etc. The nodes:
#   node1, node2  4 CPUs, 4 GB, one titanv    features titanv,sm70
#   node3         8 CPUs, 8 GB, two a100      features a100,sm80
#   node4         2 CPUs, 2 GB, no GPU        features cpu
#   node5         4 CPUs, 4 GB, one a100 and one titanv; off until a test starts it, in partition mixed with node4
# The GPUs are names: Slurm counts and hands them out, and there is no device behind them. Login node and nodes are
# namespaces: each with processes, network, host name and /dev/shm of its own; files are shared, but for /run, which is
# the cluster's. So clusters cannot collide, a node that goes off is silent as after a power cut, and the kernel ends
# everything when this script ends, however it ends. functions.sh, sourced by COMMAND, turns nodes off and on and waits
# for jobs.
# Exit code: COMMAND's; 77: this machine cannot do it (the reason is printed); 1: Slurm did not work.
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin
export LC_ALL=C
[ $# -gt 0 ] || { echo "usage: $0 COMMAND [ARGUMENT...]" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)

# --- outside: can this machine do it? ------------------------------------------------------------
namespaces=(--mount --uts --ipc --pid --fork --kill-child --mount-proc)
if [ "$1" != --inside ]; then
  skip() { echo "skipped: $*"; exit 77; }
  for program in munged munge unmunge slurmctld slurmd srun scontrol sinfo; do
    command -v "$program" > /dev/null || skip "$program is not installed (packages slurm-wlm and munge)"
  done
  command -v ip > /dev/null || skip "ip is not installed (package iproute2)"
  ldconfig -p | grep 'libpmix\.so ' > /dev/null || skip "libpmix.so is not installed (package libpmix-dev)"
  [ "$(id -u)" -eq 0 ] || skip "slurmd starts tasks as root alone"
  unshare "${namespaces[@]}" --net sh -c 'ip link add type bridge && ip link add type veth' > /dev/null 2>&1 ||
    skip "no bridge in a network namespace (a container without CAP_SYS_ADMIN and CAP_NET_ADMIN?)"
  # unshare is deaf to TERM, so this shell stays and hears it; if it is killed itself, unshare goes with it.
  setpriv --pdeathsig KILL unshare "${namespaces[@]}" --net "$here/$(basename "$0")" --inside "$@" <&0 &
  trap 'kill -KILL $!; exit 143' INT TERM
  code=0
  wait $! || code=$?
  exit $code
fi
shift
trap 'exit 143' INT TERM

# --- inside: the login node -----------------------------------------------------------------------
mount -t tmpfs -o mode=755 tmpfs /run
mkdir /run/{dev,log,munge,netns,spool,state,tmp}
. "$here/functions.sh"
broken() {
  echo "cluster.sh: $*" >&2
  tail -n 15 /run/log/*.errors >&2
  exit 1
}

hostname login
ip link set lo up
ip link add bridge0 type bridge
ip address add 198.51.100.254/24 dev bridge0
ip link set bridge0 up
{
  echo "127.0.0.1 localhost"
  echo "198.51.100.254 login"
  for n in 1 2 3 4 5; do echo "198.51.100.$n node$n"; done
} > /run/hosts
mount --bind /run/hosts /etc/hosts

# Slurm wants GPUs to be character devices whose names end in a number, and follows links.
ln -s /dev/null /run/dev/gpu0
ln -s /dev/null /run/dev/gpu1
cat > /run/gres.conf <<'CONFIGURATION'
AutoDetect=off
NodeName=node[1-2] Name=gpu Type=titanv File=/run/dev/gpu0
NodeName=node3 Name=gpu Type=a100 File=/run/dev/gpu[0-1]
NodeName=node5 Name=gpu Type=a100 File=/run/dev/gpu0
NodeName=node5 Name=gpu Type=titanv File=/run/dev/gpu1
CONFIGURATION
# The default fence of this PMIx plug-in is no barrier on a busy machine, and ranks crash in MPI_Init.
echo "PMIxCollFence=ring" > /run/mpi.conf
# Named, or slurmd fails to find one where there are no cgroups. Nothing here uses it.
echo "CgroupPlugin=cgroup/v1" > /run/cgroup.conf
# config_overrides: CPUs and memory as written here, not as they are. cred_expire is how long a requeued job is held
# back; 5 s is the least.
cat > /run/slurm.conf <<'CONFIGURATION'
ClusterName=test
SlurmctldHost=login
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=/run/munge/socket,cred_expire=5
CredType=cred/munge
StateSaveLocation=/run/state
SlurmdSpoolDir=/run/spool/%n
TmpFS=/run/tmp/%n
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.%n.pid
SlurmctldLogFile=/run/log/slurmctld
SlurmdLogFile=/run/log/slurmd.%n
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu
MpiDefault=pmix
SlurmdTimeout=20
KillWait=3
JobRequeue=1
ReturnToService=2
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmctldParameters=preempt_send_user_signal
MinJobAge=3600
SchedulerParameters=sched_interval=2,bf_interval=1,bf_continue,batch_sched_delay=0,sched_min_interval=100000
MailProg=/bin/true
NodeName=node[1-2] CPUs=4 RealMemory=4000 Gres=gpu:titanv:1 Feature=titanv,sm70 State=UNKNOWN
NodeName=node3 CPUs=8 RealMemory=8000 Gres=gpu:a100:2 Feature=a100,sm80 State=UNKNOWN
NodeName=node4 CPUs=2 RealMemory=2000 Feature=cpu State=UNKNOWN
NodeName=node5 CPUs=4 RealMemory=4000 Gres=gpu:a100:1,gpu:titanv:1 State=UNKNOWN
PartitionName=all Nodes=node[1-4] Default=YES DefaultTime=10 MaxTime=UNLIMITED PriorityTier=1 GraceTime=20 State=UP
PartitionName=mixed Nodes=node[4-5] DefaultTime=10 MaxTime=UNLIMITED PriorityTier=1 State=UP
PartitionName=urgent Nodes=node[1-4] DefaultTime=10 MaxTime=UNLIMITED PriorityTier=2 State=UP
CONFIGURATION
unset "${!SLURM_@}"  # of a job that all this may be part of
export SLURM_CONF=/run/slurm.conf
# mpirun refuses root without the first two, and would bind the first rank of every node to the same core.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_hwloc_base_binding_policy=none

(umask 077 && head -c 128 /dev/urandom > /run/munge/key)
munged --foreground --force --socket=/run/munge/socket --key-file=/run/munge/key --pid-file=/run/munge/pid \
  --seed-file=/run/munge/seed --log-file=/run/log/munged > /dev/null 2> /run/log/munged.errors &
credential_works() { munge -n -S /run/munge/socket | unmunge -S /run/munge/socket; }
within 20 "munged" credential_works || broken "munged did not answer"

slurmctld -D > /dev/null 2> /run/log/slurmctld.errors &
controller_up() { (: < /dev/tcp/198.51.100.254/6817) && timeout -k 2 "$(patience 5)" scontrol ping | grep ' is UP'; }
within 30 "slurmctld" controller_up || broken "slurmctld did not answer"
nodes=(node1 node2 node3 node4)
for node in "${nodes[@]}"; do start_node "$node"; done
nodes_idle() { [ "$(timeout -k 2 "$(patience 5)" sinfo -h -N -p all -t idle -o %N | wc -l)" -eq ${#nodes[@]} ]; }
within 30 "idle nodes" nodes_idle || broken "not all nodes are idle: $(sinfo -h -N -p all -o '%N %T' | tr '\n' ' ')"

export HETPIPE_TEST_CLUSTER=/run
code=0
"$@" || code=$?
exit $code
