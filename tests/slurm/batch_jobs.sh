#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# batch_jobs.sh HETPIPE SOURCE_DIR BAD_HOST
# From `hetpipe sbatch` to a trained model on the test cluster, over all four nodes: whole nodes under srun, which rehearse
# a preemption on the way; a heterogeneous job, one MPI world; mpirun. Each ends once the target accuracy is reached. A
# rank leaves later than the others, as on a busy node: the exit code is theirs all the same. Then on node5, whose GPUs are
# of two types: alone, in a container, and with node4 in a heterogeneous job, whose components are in the order of the nodes' names.
# At last, a second job on the run of one that lives, and a launcher that refuses: both end at once.
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
write whole -- "${training[@]}" --rehearse-preemption 20
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
for wanted in 'rehearsed preemption after 20 waves' 'start 2, on' 'resuming from .* after wave'; do
  grep -q -- "$wanted" whole.said || { echo "whole: not said: $wanted"; cat whole.said; exit 1; }
done

# node5 has GPUs of two types: each job asks for one of each, and rank and GPU go together.
start_node node5
within 30 "idle node5" node_is node5 idle
sed '/^\[\[node\]\]/,/^$/d; s/slowdown = .*/slowdown = 1.0 }/' "$source/tests/slurm/emulated_pool.toml" > mixed.toml
printf '[[node]]\nname = "node5"\ndevices = ["titan-v", "a100"]\n' >> mixed.toml
short=(--model mlp --profile "$source/tests/profiles/mlp.toml" --data fashion-mnist --trace off --threads 2)
on_node5() { # NAME [OPTION...] -- [OPTION...]
  local name=$1
  shift
  hetpipe sbatch --cluster mixed.toml --partition mixed --time "$(patience 5)" --script "$name.sh" --name "$name" "$@" "${short[@]}" > "$name.written"
}
on_node5 alone -- --epochs 0.05
on_node5 live -- --epochs 200 --checkpoint-every 4 --output live
# A stand-in for Apptainer: like a container's, its ranks do not see the folder in which Slurm keeps what is PMIx's.
mkdir bin
cat > bin/apptainer <<'CONTAINER'
#!/bin/bash
[ "$1 $2 $3 $4" = "exec --nv --pwd $PWD" ] && [ "$5" = --bind ] && [[ ,$6, == *,$PWD,* ]] && [ -e "$7" ] || { echo "apptainer $*" >&2; exit 2; }
shift 7
exec unshare --mount bash -c 'mount -t tmpfs tmpfs /run/spool && [ "$SET_UP" = "by a file, by a line" ] && exec "$@"' apptainer "$@"
CONTAINER
chmod +x bin/apptainer
: > image.sif
echo 'SET_UP="by a file"' > 'set up.sh'
on_node5 contained --setup 'set up.sh' --setup "export SET_UP=\"\$SET_UP, by a line\" PATH=$folder/bin:\$PATH" --container image.sif -- --epochs 0.05
printf '[[node]]\nname = "node4"\ndevices = []\n' >> mixed.toml
on_node5 components --heterogeneous -- --epochs 0.05
for name in alone contained components; do
  grep -qx '#SBATCH --gres=gpu:a100:1,gpu:titanv:1' "$name.sh" || { echo "$name asks for other GPUs:"; grep '^#SBATCH' "$name.sh"; exit 1; }
  job=$(sbatch --parsable --output "$name.said" "$name.sh")
  wait_for_job "$job" 100 || { cat "$name.said"; exit 1; }
  wanted_kinds=('node5:0  *a100 ' 'node5:1  *titan-v ')
  [ $name != contained ] || wanted_kinds=('node5:0  *titan-v ' 'node5:1  *a100 ')  # as the cluster file has them
  for wanted in "${wanted_kinds[@]}"; do
    grep -q -- "$wanted" "$name.said" || { echo "$name: not said: $wanted"; cat "$name.said"; exit 1; }
  done
done
grep -q 'parameter server 0 on node4' components.said || { echo "components: no server on node4"; cat components.said; exit 1; }

# Jobs that would fail again end after one attempt, and the job that trains in the same directory does not notice.
live=$(sbatch --parsable --output live.said live.sh)
within 60 "checkpoint of a run" eval 'compgen -G "live/checkpoints/*.h5"'
write second -- "${short[@]}" --epochs 200 --output live
sed 's/--mpi=pmix/--mpi=nonsense/' second.sh > refused.sh
for name in second refused; do
  job=$(sbatch --parsable --output "$name.said" "$name.sh")
  within 60 "end of job $job" job_ended "$job" || { scontrol show job "$job"; cat "$name.said"; exit 1; }
  scontrol show job "$job" | grep -q 'Restarts=0 .*ExitCode=2:0' || { scontrol show job "$job"; cat "$name.said"; exit 1; }
  ! grep -q 'another attempt' "$name.said" || { echo "$name: tried again"; cat "$name.said"; exit 1; }
done
grep -q 'live: is in use by another run (process [0-9]* on node5)' second.said || { cat second.said; exit 1; }
grep -q 'exit code 1: the launcher refuses to start ranks' refused.said || { cat refused.said; exit 1; }
newest=$(ls live/checkpoints | tail -n 1)
within 60 "another checkpoint of the run" eval '[[ $(ls live/checkpoints | tail -n 1) > $newest ]]'
scancel "$live"
within 60 "end of the run" job_ended "$live"  # which writes checkpoints until then
