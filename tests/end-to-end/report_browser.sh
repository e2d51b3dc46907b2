#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# report_browser.sh HETPIPE SOURCE_DIR
# Chromium opens reports of a training, of that beside another one, and of a simulation, wide and narrow: every control is used three
# times without an error of the script, and no text is wider than its drawing or pushes the page beyond the window.
# Exit code 77: this machine cannot do it (the reason is printed).
set -euo pipefail
hetpipe=$1
source=$2
command -v chromium > /dev/null || { echo "skipped: no chromium (package chromium)"; exit 77; }
. "$source/tests/end-to-end/fashion_scratch.sh"
plan_quickstart "$hetpipe" "$source" --optimizer adam --in-flight 2

train() {
  "$hetpipe" train --plan "$folder/plan.toml" --cluster "$cluster" --profile "$profile" --data fashion-mnist --epochs 0.1 \
    --clock simulated --transport threads --output "$folder/$1" > "$folder/$1.txt" 2>&1 || { cat "$folder/$1.txt"; exit 1; }
}
train one
train two
"$hetpipe" report "$folder/one" --output "$folder/one.html" > "$folder/said"
"$hetpipe" report "$folder/one" "$folder/two" --output "$folder/both.html" > "$folder/said"
"$hetpipe" simulate --plan "$folder/plan.toml" --cluster "$cluster" --profile "$profile" --report "$folder/simulated.html" > "$folder/said"

# What is asked of each page; the answer becomes its title.
cat > "$folder/asked" << 'END'
<script>
const errors = [];
addEventListener('error', event => errors.push(event.message));
addEventListener('load', () => {
  let used = 0;
  for (const control of document.querySelectorAll('button, summary')) {
    for (let i = 0; i < 3; ++i) { control.click(); ++used; }
  }
  for (const text of document.querySelectorAll('svg text')) {
    const box = text.getBBox(), view = text.ownerSVGElement.viewBox.baseVal;
    if (box.x < -1 || box.x + box.width > view.width + 1) errors.push('outside of its drawing: ' + text.textContent);
  }
  const wide = document.documentElement.scrollWidth - innerWidth;
  if (wide > 0) errors.push('wider than the window by ' + wide);
  document.title = used > 20 && errors.length === 0 ? 'all is well' : used + ' uses of controls; ' + errors.join('; ');
});
</script>
END
failed=0
for page in one both simulated; do
  sed "/<\/head>/r $folder/asked" "$folder/$page.html" > "$folder/asked.html"
  for width in 1400 500; do
    answer=$(timeout 120 chromium --headless --no-sandbox --disable-gpu --user-data-dir="$folder/browser" --window-size=$width,900 \
      --virtual-time-budget=5000 --dump-dom "file://$folder/asked.html" 2> "$folder/browser.txt" | sed -n 's/.*<title>\([^<]*\)<\/title>.*/\1/p' | head -n 1) || true
    echo "$page at $width pixels: ${answer:-no answer}"
    [ "$answer" = "all is well" ] || failed=1
  done
done
[ $failed -eq 0 ] || { tail -n 5 "$folder/browser.txt"; exit 1; }
