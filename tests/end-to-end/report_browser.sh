#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# report_browser.sh HETPIPE SOURCE_DIR
# Chromium opens reports of a training, of that beside another one, of one that was killed and resumed, and of a simulation, wide and
# narrow, and browser_checks.js asks them.
# Exit code 77: this machine cannot do it (the reason is printed).
set -euo pipefail
hetpipe=$1
source=$2
. "$source/tests/end-to-end/fashion_scratch.sh"
. "$source/tests/end-to-end/browser_checks.sh"
plan_quickstart "$hetpipe" "$source" --optimizer adam --in-flight 2

train() {
  "$hetpipe" train --plan "$folder/plan.toml" --cluster "$cluster" --profile "$profile" --data fashion-mnist --epochs 0.1 \
    --clock simulated --transport threads --output "$folder/$1" > "$folder/$1.txt" 2>&1 || { cat "$folder/$1.txt"; exit 1; }
}
train one
train two
"$hetpipe" report "$folder/one" --output "$folder/one.html" > "$folder/said"
"$hetpipe" report "$folder/one" "$folder/two" --output "$folder/both.html" > "$folder/said"
"$hetpipe" simulate --plan "$folder/plan.toml" --cluster "$cluster" --profile "$profile" --report "$folder/simulated.html" --json > "$folder/simulated.json"

in_browser one "$folder/one/result.json"
in_browser both "$folder/one/result.json" "$folder/two/result.json"
in_browser simulated "$folder/simulated.json"
exit $failed
