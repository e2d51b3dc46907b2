#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# peak_memory.sh HETPIPE SOURCE_DIR
# The quick start's pool under mpirun, over links that take time, evaluation included: what each stage's allocator
# saw is within 5 % of what the plan foretold. Exit code 77: this machine cannot do it (the reason is printed).
set -euo pipefail
hetpipe=$1
source=$2
. "$source/tests/end-to-end/fashion_scratch.sh"
plan_quickstart "$hetpipe" "$source" --optimizer adam
mpirun --oversubscribe -n 5 "$hetpipe" train --plan "$folder/plan.toml" --cluster "$cluster" --profile "$folder/profile.toml" \
  --data fashion-mnist --epochs 0.1 --output "$folder/run" > "$folder/run.txt" 2>&1 || { cat "$folder/run.txt"; exit 1; }

# By virtual worker and stage, as plan and result list them.
foretold=($(sed -n 's/.*memory = \([0-9_]*\).*/\1/p' "$folder/plan.toml" | tr -d _))
measured=($(sed -n 's/.*"peak_memory": \([0-9]*\).*/\1/p' "$folder/run/result.json"))
[ ${#foretold[@]} -ge 2 ] && [ ${#foretold[@]} -eq ${#measured[@]} ] ||
  { echo "${#foretold[@]} stages in the plan, ${#measured[@]} in the result"; exit 1; }
failed=0
for i in "${!foretold[@]}"; do
  echo "stage $i: ${foretold[i]} bytes foretold, ${measured[i]} measured"
  difference=$((measured[i] - foretold[i]))
  [ $((20 * ${difference#-})) -le "${foretold[i]}" ] || failed=1
done
[ $failed -eq 0 ] || cat "$folder/run.txt"
exit $failed
