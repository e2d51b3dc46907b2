#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# train_on_four_nodes.sh HETPIPE SOURCE_DIR
# One plan over all nodes of the test cluster, with a rank for each GPU and the server on the node without, in one MPI
# world: under the srun line and the mpirun line that `hetpipe plan` prints, in an ordinary job, and under srun in a
# heterogeneous job. All end with the same weights. Exit code 77: this machine cannot do it (the reason is printed).
set -euo pipefail
hetpipe=$1
source=$2
. "$source/tests/slurm/functions.sh"
on_cluster "$0" "$@"
. "$source/tests/end-to-end/fashion_scratch.sh"
. "$source/tests/slurm/pool.sh"
plan_four_nodes "$hetpipe" "$source"

# launch LAUNCHER: the printed line, of a rehearsal that is short.
launch() {
  sed -n "s|^  \($1 .*\) --data DATA\$|\1 --data fashion-mnist --epochs 0.1 --output $folder/$1|p" "$folder/planned"
}
cat > "$folder/ordinary.sh" <<SCRIPT
#!/bin/bash
#SBATCH --exclusive --nodes=4 --time=$(patience 5)
unset CUDA_VISIBLE_DEVICES  # of the first node
timeout -v -k 2 $(patience 60) $(launch srun)
echo "srun: \$?"
timeout -v -k 2 $(patience 60) $(launch mpirun)
echo "mpirun: \$?"
SCRIPT
# srun of this Slurm hangs after 2 % of heterogeneous steps that are done, until it is killed: its code is not asked for.
cat > "$folder/heterogeneous.sh" <<SCRIPT
#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=1 --gpus-per-task=1 --constraint=titanv --time=$(patience 5)
#SBATCH hetjob
#SBATCH --nodes=1 --ntasks-per-node=2 --gpus-per-task=1 --constraint=a100 --time=$(patience 5)
#SBATCH hetjob
#SBATCH --nodes=1 --ntasks-per-node=1 --constraint=cpu --time=$(patience 5)
timeout -v -k 2 $(patience 10) srun --het-group=0-2 --mpi=pmix $(launch mpirun | sed "s|^.*\($hetpipe train .*\)/mpirun\$|\1/het|")
exit 0
SCRIPT

failed=0
for script in ordinary heterogeneous; do
  job=$(sbatch --parsable --output "$folder/$script.said" "$folder/$script.sh")
  if ! wait_for_job "$job" 140; then cat "$folder/$script.said"; exit 1; fi
done
for launcher in srun mpirun; do
  grep -x "$launcher: 0" "$folder/ordinary.said" || { echo "$launcher did not end with code 0"; failed=1; }
done

for run in mpirun het; do
  difference=$("$hetpipe" checkpoint diff "$folder/srun" "$folder/$run") || failed=1
  echo "srun against $run: $difference"
done
[ $failed -eq 0 ] || cat "$folder"/*.said
exit $failed
