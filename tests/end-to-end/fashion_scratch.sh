# SPDX-License-Identifier: Apache-2.0
# Sourced by tests on Fashion-MNIST: $folder, which goes at the end. Exit code 77 where the data is not there.
[ -d /usr/share/datasets/fashion-mnist ] || { echo "skipped: no Fashion-MNIST (package dataset-fashion-mnist)"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# plan_quickstart HETPIPE SOURCE_DIR [OPTION...]: profile.toml and plan.toml of the quick start's pool, which is $cluster.
plan_quickstart() {
  local hetpipe=$1
  cluster=$2/cluster-configs/fashion-quickstart.toml
  shift 2
  "$hetpipe" profile --fresh --device cpu --model lenet --data fashion-mnist --minibatch 64 --output "$folder/profile.toml" > /dev/null
  "$hetpipe" plan --cluster "$cluster" --profile "$folder/profile.toml" "$@" --output "$folder/plan.toml" > /dev/null
}
