#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# report_causes.sh HETPIPE SOURCE_DIR
# Plans with a planted cause: the page of each names it. Of the quick start's pool, whose slowest stage is virtual worker 0's second;
# two of them are trained as well.
set -euo pipefail
hetpipe=$1
source=$2
. "$source/tests/end-to-end/fashion_scratch.sh"
plan_quickstart "$hetpipe" "$source" --optimizer adam --in-flight 2
sed -i -e '/^predicted = /d; /^\[predicted\]/,$d' "$folder/plan.toml"
pool=$cluster
failed=0

# named PAGE SENTENCE: the page's first sentence.
named() {
  local said
  said=$(sed -n 's/.*<p class="lead"><strong>\([^<]*\)<.*/\1/p' "$1")
  [ "$said" = "$2" ] || { echo "$(basename "$1"): said '$said', and it is '$2'"; failed=1; }
}
# planted NAME CLAUSE [PLAN]: for the pool $folder/NAME.toml
planted() {
  "$hetpipe" simulate --plan "${3:-$folder/plan.toml}" --cluster "$folder/$1.toml" --profile "$profile" --report "$folder/$1.html" > "$folder/said"
  named "$folder/$1.html" "$2 this plan."
}
cp "$pool" "$folder/nothing.toml"
planted nothing "Computing on stage 1 limits"
sed 's/^bandwidth = 1e9/bandwidth = 5e6/' "$pool" > "$folder/slow-links.toml"
planted slow-links "Transfers between stages limit"
sed 's/^bandwidth = 0.5e9/bandwidth = 1e5/' "$pool" > "$folder/slow-servers.toml"
planted slow-servers "Waiting for parameter servers or sums of gradients limits"
sed 's/slowdown = 16.0/slowdown = 80.0/' "$pool" > "$folder/slow-device.toml"
planted slow-device "Computing on stage 0 limits"
sed 's/layers = \[0, 3\]/layers = [0, 9]/; s/layers = \[3, 12\]/layers = [9, 12]/' "$folder/plan.toml" > "$folder/bad-cut-plan.toml"
cp "$pool" "$folder/bad-cut.toml"
planted bad-cut "Computing on stage 0 limits" "$folder/bad-cut-plan.toml"
sed 's/^in_flight = 2/in_flight = 1/' "$folder/plan.toml" > "$folder/one-in-flight-plan.toml"
cp "$pool" "$folder/one-in-flight.toml"
planted one-in-flight "Computing on stage 1 limits" "$folder/one-in-flight-plan.toml"
grep -q 'The edit that helps most: set in_flight = 2' "$folder/one-in-flight.html" || { echo "one in flight: two are not advised"; failed=1; }

for cause in slow-links:"Transfers between stages limit" slow-servers:"Waiting for parameter servers or sums of gradients limits"; do
  name=${cause%%:*}
  "$hetpipe" train --plan "$folder/plan.toml" --cluster "$folder/$name.toml" --profile "$profile" --data fashion-mnist --epochs 0.05 \
    --clock simulated --transport threads --output "$folder/$name-run" > "$folder/said" 2>&1 || { cat "$folder/said"; exit 1; }
  named "$folder/$name-run/report.html" "${cause#*:} this run."
done
exit $failed
