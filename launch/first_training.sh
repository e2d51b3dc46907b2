# SPDX-License-Identifier: Apache-2.0
# Sourced, after common.sh, by launch/quickstart and by an installation's hetpipe-quickstart: the quick start itself.

# first_training HETPIPE CLUSTER DATA FOLDER [OPTION of hetpipe train]...
# Measures LeNet on this machine, plans it for CLUSTER (emulated on this machine), and executes the mpirun that
# trains it. Profile and plan are written to FOLDER, the run to runs/.
first_training() {
  local hetpipe=$1 cluster=$2 data=$3 folder=$4 line
  shift 4
  mkdir -p "$folder"
  say "measuring lenet on this machine"
  "$hetpipe" profile --model lenet --data "$data" --device cpu --minibatch 64 --threads 1 --fresh --output "$folder/profile.toml"

  say "planning for $cluster"
  "$hetpipe" plan --cluster "$cluster" --profile "$folder/profile.toml" --data "$data" \
    --output "$folder/plan.toml" | tee "$folder/plan.txt"

  # Starts the command line that plan prints, whose words are quoted for a shell.
  line=$(grep -m 1 -o 'mpirun .*' "$folder/plan.txt")
  line+=" --epochs 3"
  [ $# -eq 0 ] || line+=" $(printf '%q ' "$@")"
  say "$line"
  eval "exec $line"
}
