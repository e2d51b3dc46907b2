#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# report_pages.sh HETPIPE SOURCE_DIR
# As report_browser.sh, of larger pages: five ranks that are killed and resumed, fourteen systems compared, a million
# actions, 64 devices simulated.
# Exit code 77: this machine cannot do it (the reason is printed).
set -euo pipefail
hetpipe=$1
source=$2
. "$source/tests/end-to-end/fashion_scratch.sh"
. "$source/tests/end-to-end/browser_checks.sh"
. "$source/tests/main/patience.sh"

# Both parts of a run: the killed one has traces alone, and the whole one the result.
plan_quickstart "$hetpipe" "$source" --optimizer adam --in-flight 2
train() {
  mpirun --oversubscribe -n 5 "$hetpipe" train --cluster "$cluster" --profile "$profile" --data fashion-mnist --epochs 0.2 \
    --checkpoint-every 10 --output "$folder/resumed" "$@" >> "$folder/resumed.txt" 2>&1
}
train --plan "$folder/plan.toml" &
first=$!
within 60 "checkpoint" eval "[ \$(ls $folder/resumed/checkpoints 2> /dev/null | wc -l) -ge 2 ]"
rank=$(pgrep -f "^$hetpipe train .*--output $folder/resumed" | tail -n 1)
kill -KILL "$rank"
! wait $first || { echo "a run that lost rank $rank ended well"; exit 1; }
"$hetpipe" report "$folder/resumed" --output "$folder/killed.html" > "$folder/said"
in_browser killed
train --resume || { cat "$folder/resumed.txt"; exit 1; }
"$hetpipe" report "$folder/resumed" --output "$folder/resumed.html" > "$folder/said"
in_browser resumed "$folder/resumed/result.json"

systems=hetpipe,spectrain,xpipe,dapple,timeprest,gpipe,pipedream-flush,zero-bubble,pipedream,pipedream-2bw,vanilla,data-parallel,ssp,asp
"$hetpipe" compare --cluster "$cluster" --profile "$profile" --data fashion-mnist --systems $systems --epochs 0.05 --evaluations 20 \
  --clock simulated --learning-rate 0.005 --output "$folder/compared" > "$folder/said" 2>&1 || { cat "$folder/said"; exit 1; }
cp "$folder/compared/report.html" "$folder/compared.html"
results=()
for system in ${systems//,/ }; do results+=("$folder/compared/runs/$system-seed-1/result.json"); done
in_browser compared "${results[@]}"

# A training of a day, by a simulated clock: a million actions.
sed 's/slowdown = 8\.0 /slowdown = 18000.0 /; s/slowdown = 16\.0/slowdown = 36000.0/' "$cluster" > "$folder/slow.toml"
slow=(--cluster "$folder/slow.toml" --profile "$source/tests/profiles/mlp.toml" --data fashion-mnist)
"$hetpipe" plan "${slow[@]}" --minibatch 4 --in-flight 4 --output "$folder/slow-plan.toml" > "$folder/said"
"$hetpipe" train --plan "$folder/slow-plan.toml" "${slow[@]}" --epochs 6.2 --clock simulated --transport threads --evaluate-every 500 \
  --output "$folder/long" > "$folder/said" 2>&1 || { cat "$folder/said"; exit 1; }
"$hetpipe" trace export "$folder/long" --csv "$folder/long.csv" > "$folder/said"
[ "$(wc -l < "$folder/long.csv")" -gt 1000000 ] || { echo "not a million actions: $(cat "$folder/said")"; exit 1; }
cp "$folder/long/report.html" "$folder/long.html"
[ "$(stat -c %s "$folder/long.html")" -lt 1000000 ] || { echo "the page of a long run has $(stat -c %s "$folder/long.html") bytes"; exit 1; }
in_browser long "$folder/long/result.json"

# Four nodes of each of four types; virtual workers over unlike ones.
{
  echo "format = 1"
  for kind in h100-sxm a100-sxm-40gb v100-sxm-32gb t4; do
    printf '[[node]]\nname = "%s[0-3]"\ndevices = ["%s", "%s", "%s", "%s"]\n' "${kind%%-*}" $kind $kind $kind $kind
  done
  printf '[link.intra_node]\nbandwidth = 12e9\nlatency = 10e-6\n[link.inter_node]\nbandwidth = 11e9\nlatency = 5e-6\n'
} > "$folder/64.toml"
"$hetpipe" plan --cluster "$folder/64.toml" --profile "$source/cluster-configs/profiles/vgg19.toml" --minibatch 32 --policy ed \
  --output "$folder/64-plan.toml" > "$folder/said"
"$hetpipe" simulate --plan "$folder/64-plan.toml" --cluster "$folder/64.toml" --profile "$source/cluster-configs/profiles/vgg19.toml" \
  --report "$folder/64.html" --json > "$folder/64.json"
[ "$(grep -o '"peak_memory":' "$folder/64.json" | wc -l)" -eq 64 ] || { echo "not a simulation of 64 devices"; exit 1; }
in_browser 64 "$folder/64.json"
exit $failed
