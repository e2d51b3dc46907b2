#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# report.sh HETPIPE SOURCE_DIR
# The report of a job over all four nodes of the test cluster, in a browser: see tests/end-to-end/browser_checks.js. Exit code 77:
# this machine cannot do it (the reason is printed).
set -euo pipefail
hetpipe=$1
source=$2
. "$source/tests/slurm/functions.sh"
on_cluster "$0" "$@"
. "$source/tests/end-to-end/fashion_scratch.sh"
. "$source/tests/end-to-end/browser_checks.sh"
. "$source/tests/slurm/pool.sh"
plan_four_nodes "$hetpipe" "$source"
cat > "$folder/job.sh" <<SCRIPT
#!/bin/bash
#SBATCH --exclusive --nodes=4 --time=$(patience 5)
unset CUDA_VISIBLE_DEVICES  # of the first node
timeout -v -k 2 $(patience 60) $(sed -n "s|^  \(srun .*\) --data DATA\$|\1 --data fashion-mnist --epochs 0.1 --output $folder/run|p" "$folder/planned")
SCRIPT
job=$(sbatch --parsable --output "$folder/said" "$folder/job.sh")
wait_for_job "$job" 100 || { cat "$folder/said"; exit 1; }
"$hetpipe" report "$folder/run" --output "$folder/slurm.html" > "$folder/said"
for node in node1 node2 node3 node4; do
  grep -q "node $node" "$folder/slurm.html" || { echo "the page does not name $node"; failed=1; }
done
in_browser slurm "$folder/run/result.json"
exit $failed
