#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# report_sliders.sh HETPIPE SOURCE_DIR [SETTINGS]
# Chromium moves the sliders of pages to random places (200 in all, the same ones every time); each answer is compared with the command
# that the page shows beside it, document by document, to the last digit, and what the page shows with its own document.
# In windows of 400 and 1,400 pixels, which nothing may be wider than.
# Exit code 77: this machine cannot do it (the reason is printed).
set -euo pipefail
hetpipe=$1
source=$2
settings=${3:-50}  # of each page
command -v chromium > /dev/null || { echo "skipped: no chromium (package chromium)"; exit 77; }
[ -e "$(dirname "$hetpipe")/../share/hetpipe/simulator/simulator.wasm" ] ||
  {
    # Then the command says what is missing.
    said=$("$hetpipe" report . --with-simulator --output "${TMPDIR:-/tmp}/report.html" 2>&1) && code=0 || code=$?
    [[ $code -eq 2 && $said == "--with-simulator: needs the simulator for browsers"* ]] ||
      { echo "hetpipe report --with-simulator does not say that there is no simulator: $said"; exit 1; }
    echo "skipped: this build has no simulator for browsers (package emscripten, -DHETPIPE_BROWSER=on)"
    exit 77
  }
. "$source/tests/end-to-end/fashion_scratch.sh"
configs=$source/cluster-configs
vgg=$configs/profiles/vgg19.toml

# page NAME CLUSTER PROFILE [OPTION OF PLAN...]
page() {
  "$hetpipe" plan --cluster "$2" --profile "$3" "${@:4}" --output "$folder/$1.toml" > "$folder/said"
  "$hetpipe" simulate --cluster "$2" --profile "$3" --plan "$folder/$1.toml" --report "$folder/$1.html" --with-simulator > "$folder/said"
}
# A run, several virtual workers with servers over nodes of unlike devices, replicas of a stage with unlike shares, a flush.
plan_quickstart "$hetpipe" "$source" --optimizer adam --in-flight 2
"$hetpipe" train --plan "$folder/plan.toml" --cluster "$cluster" --profile "$profile" --data fashion-mnist --epochs 0.05 \
  --clock simulated --transport threads --output "$folder/run" > "$folder/said" 2>&1 || { cat "$folder/said"; exit 1; }
"$hetpipe" report "$folder/run" --output "$folder/run.html" --with-simulator > "$folder/said"
page servers "$configs/hetpipe-paper.toml" "$vgg" --system hetpipe --policy ed --minibatch 32 --clock-distance 1
page replicas "$configs/titan-2080-3090.toml" "$vgg" --system dapple --minibatch 64
page parallel "$configs/lab-drawer.toml" "$vgg" --system data-parallel --minibatch 60

# What moves the sliders of a page, and says what they answered.
cat > "$folder/asked" << 'END'
<script>
addEventListener('load', async () => {
  let state = SEED;
  const random = n => { state = (Math.imul(state, 1664525) + 1013904223) >>> 0; return Math.floor(state / 4294967296 * n); };
  const base64 = text => btoa(String.fromCharCode(...new TextEncoder().encode(text))) || '-';
  const form = document.querySelector('[data-what-if]');
  const said = document.getElementById(form.dataset.whatIf + '-what-if-said');
  const answer = document.getElementById(form.dataset.whatIf + '-what-if-answer');
  const answered = () => new Promise(done => form.addEventListener('answered', done, {once: true}));
  await answered();
  const sliders = form.querySelectorAll('input[type=range]'), boxes = form.querySelectorAll('input[type=checkbox]');
  let slowest = 0, total = 0;
  for (let i = 0; i < SETTINGS; ++i) {
    form.reset();
    await answered();
    for (const s of sliders) {
      const step = Number(s.step) || 1, least = Number(s.min);
      if (random(2)) s.value = least + step * random((Number(s.max) - least) / step + 1);
    }
    if (random(4) === 0) for (let gone = random(3); gone >= 0; --gone) boxes[random(boxes.length)].checked = false;
    form.dispatchEvent(new Event('input'));
    await answered();
    const text = (answer.querySelector('[data-document]') || {textContent: ''}).textContent;
    const wrong = [];
    if (text) {
      const json = JSON.parse(text), cells = Array.from(answer.querySelectorAll('tbody tr'));
      const values = e => Array.from(e.querySelectorAll('data'), d => d.value).join();
      if (values(said) !== [json.throughput, json.iteration_time].join()) wrong.push('what is said');
      if (cells.length !== json.stages.length) wrong.push('rows');
      json.stages.forEach((s, k) => { if (values(cells[k]) !== [s.busy, s.bubble, s.communication, s.peak_memory].join()) wrong.push('row ' + k); });
    }
    // The command says what was set: words by themselves, and devices by their names at the time.
    const command = answer.querySelector('[data-command]').textContent;
    const words = command.includes(' --what-if ') ? command.split(" --what-if '")[1].slice(0, -1).split(', ') : [];
    const there = Array.from(boxes, box => box.dataset.node + ':' + box.dataset.index);
    for (const word of words.filter(word => word[0] === '-')) {
      const node = word.slice(1).split(':')[0], own = there.filter(name => name.split(':')[0] === node);
      there.splice(there.indexOf(own[Number(word.split(':')[1])]), 1);
    }
    const kept = Array.from(boxes).filter(box => box.checked).map(box => box.dataset.node + ':' + box.dataset.index);
    if (there.join() !== kept.join()) wrong.push('devices ' + there.join());
    for (const cell of answer.querySelectorAll('tbody th')) if (!kept.includes(cell.textContent.split(' ')[0])) wrong.push(cell.textContent);
    const set = Array.from(sliders).filter(s => s.value !== s.defaultValue).map(s => s.nextElementSibling.textContent.replace(/\D+ /, ''));
    if (words.filter(word => word[0] !== '-').map(word => word.match(/(x| = )([0-9.]+)$/)[2]).join() !== set.join()) wrong.push('settings');
    const wide = document.documentElement.scrollWidth - innerWidth;
    if (wide > 0) wrong.push('wider than the window by ' + wide);
    const problems = Array.from(answer.querySelectorAll('.note'), p => p.textContent).join('\n');
    const took = Number(form.dataset.milliseconds);
    slowest = Math.max(slowest, took);
    total += took;
    console.log('SETTING ' + [base64(answer.querySelector('[data-command]').textContent), base64(text), base64(problems), base64(wrong.join())].join(' ') + ' END');
  }
  console.log('DONE ' + (total / SETTINGS).toFixed(1) + ' ms each, the slowest ' + slowest.toFixed(0) + ' ms END');
});
</script>
END

decoded() { [ "$1" = - ] || base64 -d <<< "$1"; }
failed=0 equal=0 refused=0 anew=0 seed=1 width=400
for name in run servers replicas parallel; do
  sed -e "s/SEED/$seed/" -e "s/SETTINGS/$settings/g" "$folder/asked" > "$folder/asks"
  seed=$((seed + 1))
  sed "/<\/head>/r $folder/asks" "$folder/$name.html" > "$folder/asked.html"
  timeout 900 chromium --headless --no-sandbox --disable-gpu --user-data-dir="$folder/browser" --remote-debugging-port=0 --window-size=$width,900 \
    --enable-logging=stderr "file://$folder/asked.html" > "$folder/browser.txt" 2>&1 &
  browser=$!
  while kill -0 $browser 2> /dev/null && ! grep -q 'CONSOLE.*"DONE' "$folder/browser.txt"; do sleep 0.2; done
  width=$((width == 400 ? 1400 : 400))
  kill $browser 2> /dev/null || true
  wait $browser 2> /dev/null || true
  echo "$name, $(stat -c %s "$folder/$name.html") bytes: $(sed -n 's/.*"DONE \(.*\) END".*/\1/p' "$folder/browser.txt")"
  count=0
  while read -r command document problems wrong; do
    count=$((count + 1))
    said=$(decoded "$command")
    bash -c "${said/#hetpipe/$hetpipe} --json" > "$folder/printed" 2> "$folder/complaint" < /dev/null && code=0 || code=$?
    decoded "$wrong" > "$folder/wrong"
    if [ "$document" = - ]; then
      decoded "$problems" > "$folder/shown"
      echo >> "$folder/shown"
      grep -v '^warning: ' "$folder/complaint" > "$folder/expected" || true
      if [ $code -eq 2 ] && [ ! -s "$folder/wrong" ] && cmp -s "$folder/shown" "$folder/expected"; then refused=$((refused + 1)); continue; fi
      diff "$folder/shown" "$folder/expected" | head -n 6 || true
    else
      decoded "$document" > "$folder/shown"
      if [ $code -eq 0 ] && [ ! -s "$folder/wrong" ] && cmp -s "$folder/shown" "$folder/printed"; then
        equal=$((equal + 1))
        if grep -q '"planned_anew": true' "$folder/shown"; then anew=$((anew + 1)); fi
        continue
      fi
      diff "$folder/shown" "$folder/printed" | head -n 6 || true
    fi
    echo "$name differs ($(cat "$folder/wrong")), exit code $code: $said"
    failed=1
  done < <(sed -n 's/.*"SETTING \(.*\) END".*/\1/p' "$folder/browser.txt")
  [ $count -eq "$settings" ] || { echo "$name: $count settings of $settings"; tail -n 5 "$folder/browser.txt" | cut -c1-400; failed=1; }
done
echo "$equal settings gave the command's document ($anew of them planned anew), $refused its message"
# Both kinds are worth a test only if there are enough.
[ $equal -ge $((3 * settings)) ] && [ $anew -ge $((settings / 5)) ] || { echo "too few of them"; failed=1; }
exit $failed
