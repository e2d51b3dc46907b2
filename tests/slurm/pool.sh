# SPDX-License-Identifier: Apache-2.0
# Sourced after tests/end-to-end/fashion_scratch.sh.

# plan_four_nodes HETPIPE SOURCE_DIR: a small model over all devices of $cluster, with the server on node4:
# profile.toml, plan.toml and planned, which is what was said of it.
plan_four_nodes() {
  cluster=$2/tests/slurm/pool.toml
  "$1" profile --fresh --device cpu --model mlp --data fashion-mnist --minibatch 64 \
    --output "$folder/profile.toml" > /dev/null
  "$1" plan --cluster "$cluster" --profile "$folder/profile.toml" --policy ed --in-flight 4 \
    --output "$folder/plan.toml" > "$folder/planned"
}
