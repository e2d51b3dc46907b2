# SPDX-License-Identifier: Apache-2.0
# The table throughput, sourced by benchmarks/run. EPOCHS: of each run.

# Profile and plans of every system on the emulated pool, in $work; sets the caller's pool, data and minibatch.
plans_of_throughput() {
  local name
  pool=benchmarks/throughput/pool.toml data=fashion-mnist minibatch=$(sized 64 16)
  if [ $trial = yes ]; then
    data=$work/data
    make_pictures "$data" 320 28
    pool=$work/pool.toml
    sed 's/slowdown = [0-9.]*/slowdown = 1.0/' benchmarks/throughput/pool.toml > "$pool"
  fi
  "$build/bin/hetpipe" profile --fresh --model resnet-8 --data "$data" --threads 1 --minibatch "$(sized 4,8,16,32,64 1,4,16)" \
    --output "$work/profile.toml" > "$work/profile.log" 2>&1
  rm -rf "$work/plans"
  benchmarks/plans "$build/bin/hetpipe" "$pool" "$work/profile.toml" sgd-momentum "$minibatch" "$work/plans" hetpipe-d0 hetpipe-d4 \
    spectrain xpipe dapple timeprest timeprest-mixed gpipe pipedream-flush zero-bubble pipedream pipedream-2bw vanilla \
    data-parallel ssp asp
  for name in hybrid interleaved; do
    sed "s/^minibatch = .*/minibatch = $minibatch/" benchmarks/throughput/$name.toml > "$work/plans/$name.toml"
  done
}

# Every system on one pool: the simulator's samples/s, predicted before the run, and those of the run in its steady state.
run_throughput() {
  build_targets hetpipe
  local pool data minibatch epochs plan name ranks predicted measured
  epochs=$(sized "${EPOCHS:-0.25}" 1)
  plans_of_throughput
  echo "ResNet-8 on Fashion-MNIST, minibatches of 64, 4 micro-batches or 4 minibatches in flight; four different devices, emulated"
  echo "([pool.toml](../throughput/pool.toml)), profile of minibatches of 4 to 64 made immediately before, plans by"
  echo "[plans](../plans). Predicted: \`hetpipe simulate\`. Measured: the steady state of ${EPOCHS:-0.25} epochs, the first 5 % of the waves"
  echo "(at least 3) and the last wave left out. Overrun: actions that this machine was too slow for."
  echo
  echo "| plan | predicted, samples/s | measured | error | actions overrun |"
  echo "|---|---|---|---|---|"
  : > "$work/errors"
  for plan in "$work"/plans/*.toml; do
    name=$(basename "$plan" .toml)
    predicted=$("$build/bin/hetpipe" simulate --cluster "$pool" --profile "$work/profile.toml" --plan "$plan" --json |
      awk -F '[:,]' '/"throughput"/ && !n++ {print $2}')
    [[ $trial = no || $name =~ ^(hetpipe-d0|hybrid|interleaved)$ ]] || continue
    ranks=$(($(grep -o '"[a-z]*:[0-9]*"' "$plan" | sort -u | wc -l) + $(grep -c '^nodes = ' "$plan" || true)))
    rm -rf "$work/runs/$name"
    mpirun --oversubscribe -n "$ranks" "$build/bin/hetpipe" train --plan "$plan" --cluster "$pool" --profile "$work/profile.toml" \
      --data "$data" --output "$work/runs/$name" --epochs "$epochs" --learning-rate 0.01 --trace off \
      --evaluate-every 0 > "$work/$name.txt" 2>&1 || { tail -n 20 "$work/$name.txt" >&2; die "training $name failed"; }
    measured=$(grep -o '[0-9]* samples/s  stale' "$work/$name.txt" | awk '{v[NR] = $1} END {
      from = int(NR / 20); if (from < 3) from = 3; for (i = from + 1; i < NR; i++) {s += 1 / v[i]; n++} printf "%.3f\n", n / s}')
    awk -v f="$predicted" -v m="$measured" 'BEGIN {print 100 * (m / f - 1)}' >> "$work/errors"
    awk -v n="$name" -v f="$predicted" -v m="$measured" -v o="$(sed -n 's/^emulation: \([0-9]* of [0-9]*\) actions.*/\1/p' "$work/$name.txt")" \
      'BEGIN {printf "| %s | %.1f | %.1f | %+.1f %% | %s |\n", n, f, m, 100 * (m / f - 1), o}'
  done
  echo
  awk '{e = $1 < 0 ? -$1 : $1; s += e; if (e > w) w = e} END {printf "Mean error %.1f %%, worst %.1f %%, of %d plans.\n", s / NR, w, NR}' "$work/errors"
}
