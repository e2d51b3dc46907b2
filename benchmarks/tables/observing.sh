# SPDX-License-Identifier: Apache-2.0
# The tables observing and long-report, sourced by benchmarks/run. REPETITIONS: pairs of runs.

# observe RUN POOL [OPTION...]: trains; adds to $work/RUN.cost its samples/s and the seconds that processors worked for it.
observe() {
  local run=$1 pool=$2 TIMEFORMAT='%U %S' used
  shift 2
  rm -rf "${work:?}/$run"
  used=$({ time mpirun --oversubscribe -n "$(sed -n 's/^ *mpirun -np \([0-9]*\) .*/\1/p' "$work/$pool.txt")" \
    "$build/bin/hetpipe" train --plan "$work/$pool-plan.toml" --cluster "$work/$pool.toml" --profile "$work/profile.toml" \
    --data "$work/data" --output "$work/$run" --learning-rate 0.001 --epochs "$(sized 2 1)" "$@" > "$work/$run.txt" 2>&1; } 2>&1) ||
    { tail -n 20 "$work/$run.txt" >&2; die "training failed"; }
  awk -v s="$(sed -n 's/.*"throughput": \([0-9.e+]*\).*/\1/p' "$work/$run/result.json")" -v t="$used" \
    'BEGIN {split(t, c, " "); print s, c[1] + c[2]}' >> "$work/${run%-*}.cost"
}

run_observing() {
  prepare_pool
  local pool pair pairs with
  pairs=$(sized "${REPETITIONS:-7}" 1)
  cp benchmarks/emulated-pool.toml "$work/modelled.toml"
  printf 'format = 1\n[device.cpu]\nmemory = 4_000_000_000\n[[node]]\nname = "%s"\ndevices = ["cpu", "cpu", "cpu", "cpu"]\n%s\n' \
    "$(hostname)" $'[link.intra_node]\nbandwidth = 4e9' > "$work/as-it-is.toml"
  for pool in modelled as-it-is; do
    "$build/bin/hetpipe" plan --cluster "$work/$pool.toml" --profile "$work/profile.toml" --virtual-workers 2 --in-flight 4 \
      --data "$work/data" --output "$work/$pool-plan.toml" > "$work/$pool.txt"
  done
  echo "ResNet-8 on noise of 32 x 32 pixels, minibatch 64, Nm = 4, D = 0, two virtual workers of two devices and a server, two epochs, with"
  echo "\`--trace on --tensorboard DIR --metrics FILE\` and with \`--trace off\`, in turns, the order changing from pair to pair. Modelled:"
  echo "[emulated-pool.toml](../emulated-pool.toml), whose devices take modelled times, as a GPU leaves its host alone; as it is: as fast as"
  echo "this machine goes. Samples/s of whole runs; processors: their user and system seconds, start and end included. The goal is less than"
  echo "1 % of the samples/s."
  echo
  echo "| devices | pairs | samples/s with | without | with : without, median (least .. most) | processor seconds with : without |"
  echo "|---|---|---|---|---|---|"
  for pool in modelled as-it-is; do
    rm -f "$work"/{with,without}.cost
    for pair in $(seq $pairs); do
      rm -rf "$work/curves"
      with=(observe "with-$pair" "$pool" --trace on --tensorboard "$work/curves" --metrics "$work/run.prom")
      [ $((pair % 2)) -eq 0 ] || "${with[@]}"
      observe "without-$pair" "$pool" --trace off
      [ $((pair % 2)) -eq 1 ] || "${with[@]}"
    done
    echo "| ${pool//-/ } | $pairs | $(cut -d ' ' -f 1 "$work/with.cost" | spread) |" \
      "$(cut -d ' ' -f 1 "$work/without.cost" | spread) |" \
      "$(paste -d ' ' "$work"/{with,without}.cost | awk '{print $1 / $3}' | spread) |" \
      "$(paste -d ' ' "$work"/{with,without}.cost | awk '{print $2 / $4}' | spread) |"
  done
}

run_long_report() {
  command -v chromium > /dev/null || skip "no chromium (package chromium)"
  [ -d /usr/share/datasets/fashion-mnist ] || skip "no Fashion-MNIST (package dataset-fashion-mnist)"
  build_targets hetpipe
  local actions bytes made answer load
  sed 's/slowdown = 8\.0 /slowdown = 18000.0 /; s/slowdown = 16\.0/slowdown = 36000.0/' cluster-configs/fashion-quickstart.toml > "$work/cluster.toml"
  local of=(--cluster "$work/cluster.toml" --profile tests/profiles/mlp.toml --data fashion-mnist)
  "$build/bin/hetpipe" plan "${of[@]}" --minibatch 4 --in-flight 4 --output "$work/plan.toml" > "$work/plan.txt"
  rm -rf "$work/run"
  "$build/bin/hetpipe" train --plan "$work/plan.toml" "${of[@]}" --epochs "$(sized 6.2 0.02)" --clock simulated --transport threads \
    --evaluate-every 500 --output "$work/run" > "$work/train.txt" 2>&1 || { tail -n 20 "$work/train.txt" >&2; die "training failed"; }
  actions=$("$build/bin/hetpipe" trace export "$work/run" --csv "$work/actions.csv" | sed -n 's/.*: \([0-9]* actions.*\)/\1/p')
  made=$(TIMEFORMAT=%R; { time "$build/bin/hetpipe" report "$work/run" --output "$work/page.html" > "$work/report.txt"; } 2>&1)
  bytes=$(stat -c %s "$work/page.html")
  cat > "$work/asked" << 'PAGE'
<script>
addEventListener("load", () => {
  const opened = performance.now(), steps = [];
  for (const what of ["all", ...Array(24).fill("in"), ...Array(8).fill("right"), ...Array(24).fill("out"), "left", "all"]) {
    const button = document.querySelector(`[data-timeline] [data-do=${what}]`), before = performance.now();
    button.click();
    document.body.getBoundingClientRect();
    steps.push(performance.now() - before);
  }
  steps.sort((a, b) => a - b);
  document.title = `${opened.toFixed(0)} | ${steps[steps.length >> 1].toFixed(1)} | ${steps[steps.length - 1].toFixed(1)}`;
});
</script>
PAGE
  sed "/<\/head>/{
r $work/asked
}" "$work/page.html" > "$work/asked.html"
  echo "An MLP on Fashion-MNIST under a simulated clock, on devices so slow that it lasts as long as stated: $actions."
  echo "The report was made in $made s and has $((bytes / 1000)) kB (limit 1 MB). Chromium, no GPU, 1,400 pixels, in milliseconds: from the start of the"
  echo "navigation to the end of loading (goal 3,000), and a click of the timeline's controls with its layout, 59 of them: zooming in 24 times, moving"
  echo "eight times, zooming out."
  echo
  echo "| load | opened | click, median | click, longest |"
  echo "|---|---|---|---|"
  for load in $(seq "$(sized 5 1)"); do
    answer=$(timeout 120 chromium --headless --no-sandbox --disable-gpu --user-data-dir="$work/browser" --window-size=1400,900 \
      --dump-dom "file://$work/asked.html" 2> "$work/browser.txt" | sed -n 's/.*<title>\([0-9][^<]*\)<\/title>.*/\1/p' | head -n 1)
    [ -n "$answer" ] || die "no answer from the page"
    echo "| $load | $answer |"
  done
}
