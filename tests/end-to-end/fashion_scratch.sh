# SPDX-License-Identifier: Apache-2.0
# Sourced by tests on Fashion-MNIST: $folder, which goes at the end. Exit code 77 where the data is not there.
[ -d /usr/share/datasets/fashion-mnist ] || { echo "skipped: no Fashion-MNIST (package dataset-fashion-mnist)"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# plan_for RANKS HETPIPE [OPTION...]: plan.toml for $cluster from $profile, and planned, which is what was said of it. It
# has to be one that is started with so many ranks.
plan_for() {
  local wanted=$1 ranks
  "$2" plan --cluster "$cluster" --profile "$profile" "${@:3}" --output "$folder/plan.toml" > "$folder/planned"
  ranks=$(sed -n 's/^ *mpirun -np \([0-9]*\) .*/\1/p' "$folder/planned")
  [ "$ranks" = "$wanted" ] || { echo "the plan is for '$ranks' ranks, and would be started with $wanted:"; cat "$folder/planned"; exit 1; }
}
# plan_quickstart HETPIPE SOURCE_DIR [OPTION...]: plan.toml for the quick start's pool, five ranks.
plan_quickstart() {
  cluster=$2/cluster-configs/fashion-quickstart.toml
  profile=$2/tests/profiles/lenet.toml
  plan_for 5 "$1" --minibatch 64 "${@:3}"
}
