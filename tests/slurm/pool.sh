# SPDX-License-Identifier: Apache-2.0
# Sourced after tests/end-to-end/fashion_scratch.sh.

# plan_four_nodes HETPIPE SOURCE_DIR: a small model over all devices of $cluster, with the server on node4: plan.toml and
# planned, which is what was said of it.
plan_four_nodes() {
  cluster=$2/tests/slurm/pool.toml
  profile=$2/tests/profiles/mlp.toml
  plan_for 5 "$1" --policy ed --in-flight 4
}
