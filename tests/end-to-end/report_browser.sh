#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# report_browser.sh HETPIPE SOURCE_DIR [--update]
# Chromium opens reports of a training, of that beside another one, of one that was killed and resumed, and of a simulation, wide and
# narrow, and browser_checks.js asks them. The picture of the documents is of such a page; --update makes it anew.
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
(cd "$folder" && "$hetpipe" report one --output one.html > said)  # as a page in the documents names its run
"$hetpipe" report "$folder/one" "$folder/two" --output "$folder/both.html" > "$folder/said"
"$hetpipe" simulate --plan "$folder/plan.toml" --cluster "$cluster" --profile "$profile" --report "$folder/simulated.html" --json > "$folder/simulated.json"

in_browser one "$folder/one/result.json"
in_browser both "$folder/one/result.json" "$folder/two/result.json"
in_browser simulated "$folder/simulated.json"

# What the page of the picture says whatever its numbers are.
said_by() { grep -oE '<(h[1-6]|caption|figcaption|th|button|summary|legend)[^>]*>[^<]+' "$1" | sed 's/<[^>]*>//; s/[0-9.,]\+/N/g' | sort -u; }
picture=$source/docs/pictures/report
if [ "${3:-}" = --update ]; then
  said_by "$folder/one.html" > "$picture.txt"
  chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$folder/browser" --window-size=1280,2900 --virtual-time-budget=5000 \
    --screenshot="$picture.png" "file://$folder/one.html" 2> /dev/null
elif ! said_by "$folder/one.html" | diff "$picture.txt" -; then
  echo "$picture.png shows another page than this one: tests/end-to-end/report_browser.sh HETPIPE SOURCE_DIR --update"
  failed=1
fi
exit $failed
