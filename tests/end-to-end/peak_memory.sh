#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# peak_memory.sh HETPIPE SOURCE_DIR
# The quick start's pool under mpirun, over links that take time, evaluation included: what each stage's allocator
# saw is within 5 % of what its plan needs, whatever queues because the rank that should receive it gets no core. Once as planned (with the
# optimizer at the servers), once cut behind conv2, where the backward of a pool holds two gradients, and once with an optimizer at each stage
# and four minibatches in flight for each;
# GPipe's, cut behind conv1 with the slower devices last, where the first stages could run far ahead.
# Then a GPT whose tied weights are most of it, evaluating after every wave, for which its stages stop at different minibatches.
# Exit code 77: this machine cannot do it (the reason is printed).
set -euo pipefail
hetpipe=$1
source=$2
. "$source/tests/end-to-end/fashion_scratch.sh"
plan_quickstart "$hetpipe" "$source" --optimizer adam --in-flight 2
[ "$(grep -c 'layers = \[0, 3\]\|layers = \[3, 12\]' "$folder/plan.toml")" -eq 4 ] ||
  { echo "the plan is not cut before layer 3:"; cat "$folder/plan.toml"; exit 1; }

# check PLAN DATA [OPTION...]
check() {
  local plan=$1 data=$2
  shift 2
  local run=${plan%.toml}-run
  "$hetpipe" simulate --plan "$plan" --cluster "$cluster" --profile "$profile" --json > "$folder/simulated.json"
  mpirun --oversubscribe -n $((4 + $(grep -c '^\[parameter_server\]' "$plan"))) "$hetpipe" train --plan "$plan" --cluster "$cluster" --profile "$profile" \
    --data "$data" --epochs 0.1 "$@" --output "$run" > "$folder/run.txt" 2>&1 || { cat "$folder/run.txt"; exit 1; }

  # By virtual worker and stage, as simulator and result list them.
  local predicted=($(sed -n 's/.*"peak_memory": \([0-9]*\).*/\1/p' "$folder/simulated.json"))
  local measured=($(sed -n 's/.*"peak_memory": \([0-9]*\).*/\1/p' "$run/result.json"))
  [ ${#predicted[@]} -ge 2 ] && [ ${#predicted[@]} -eq ${#measured[@]} ] ||
    { echo "${#predicted[@]} stages predicted, ${#measured[@]} in the result"; exit 1; }
  local failed=0
  for i in "${!predicted[@]}"; do
    echo "stage $i: ${predicted[i]} bytes predicted, ${measured[i]} measured"
    [ $((20 * measured[i])) -ge $((19 * predicted[i])) ] || failed=1
    [ $((20 * measured[i])) -le $((21 * predicted[i])) ] || failed=1
  done
  [ $failed -eq 0 ] || { cat "$folder/run.txt"; exit 1; }
}
check "$folder/plan.toml" fashion-mnist
sed 's/layers = \[0, 3\]/layers = [0, 4]/; s/layers = \[3, 12\]/layers = [4, 12]/' "$folder/plan.toml" > "$folder/behind-conv2.toml"
check "$folder/behind-conv2.toml" fashion-mnist
sed 's/in_flight = 2/in_flight = 8/; /^sync = /d; s/^scale = .*/scale = "root"/' "$folder/plan.toml" > "$folder/eight.toml"
check "$folder/eight.toml" fashion-mnist
sed -e 's/^system = .*/system = "gpipe"/; s/^in_flight = .*/in_flight = 1/; s/^micro_batches = .*/micro_batches = 8/; s/^minibatch = .*/minibatch = 256/' \
  -e '/^sync = /d; /^\[parameter_server\]/,/^$/d; /^predicted = /d; /^\[predicted\]/,$d' -e 's/:0"/:x"/; s/:1"/:0"/; s/:x"/:1"/' \
  -e 's/layers = \[0, 3\]/layers = [0, 1]/; s/layers = \[3, 12\]/layers = [1, 12]/' "$folder/plan.toml" > "$folder/gpipe.toml"
check "$folder/gpipe.toml" fashion-mnist

# 3,856 tokens: pairs of bytes below 16.
mkdir "$folder/tokens"
for split in train:60000 val:600; do
  LC_ALL=C tr -dc '\000-\017' < /dev/urandom | head -c "${split#*:}" > "$folder/tokens/${split%:*}.bin" || true
done
cluster=$folder/four.toml profile=$folder/gpt.toml
printf '%s\n' 'format = 1' '[device.cpu]' 'memory = 8_000_000_000' 'emulate = { slowdown = 1.0 }' '[[node]]' 'name = "a"' \
  'devices = ["cpu", "cpu", "cpu", "cpu"]' '[[node]]' 'name = "b"' 'devices = []' '[link.intra_node]' 'bandwidth = 10e9' \
  '[link.inter_node]' 'bandwidth = 10e9' > "$cluster"
"$hetpipe" profile --fresh --model gpt2-tiny --data "tokens:$folder/tokens,T=8" --device cpu --threads 1 --minibatch 8 --output "$profile" > "$folder/profiled"
plan_for 5 "$hetpipe" --minibatch 8 --policy np --virtual-workers 1 --in-flight 8
awk 'BEGIN {split("0,14 14,26 26,38 38,45", stages, " ")} /^layers = / {$0 = "layers = [" stages[++n] "]"} {print}' "$folder/plan.toml" > "$folder/gpt-plan.toml"
check "$folder/gpt-plan.toml" "tokens:$folder/tokens,T=8" --evaluate-every 1
