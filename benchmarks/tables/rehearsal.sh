# SPDX-License-Identifier: Apache-2.0
# The table rehearsal, sourced by benchmarks/run: the headline of HetPipe's paper on its testbed, scaled. Weights do not depend
# on the time that a device takes, so learning rates are tried where nothing is slowed down, as many for every plan; the race
# itself is run with the devices' slowdowns. SEEDS: of the race. A trial has one device of each kind and fewer plans.

# candidate NAME CANDIDATE OPTION...: plans with the options; it becomes plans/NAME.toml if it is predicted to be faster.
candidate() {
  local of=$1 name=$2 predicted best
  shift 2
  rm -f "$work/candidates/$name.toml"
  "$build/bin/hetpipe" plan "${planned_from[@]}" "$@" --output "$work/candidates/$name.toml" > "$work/candidates/$name.log" 2>&1 || true
  predicted=$(awk '/^throughput = / {printf "%.0f", $3}' "$work/candidates/$name.toml" 2> /dev/null || true)
  echo "${name}: ${predicted:--}" >> "$work/candidates/names"
  paste -sd ',' "$work/candidates/names" | sed 's/,/, /g' > "$work/candidates/list"
  best=$(awk '/^throughput = / {printf "%.0f", $3}' "$work/plans/$of.toml" 2> /dev/null || true)
  if [ -n "$predicted" ] && [ "$predicted" -gt "${best:-0}" ]; then cp "$work/candidates/$name.toml" "$work/plans/$of.toml"; fi
}

# What the rehearsal is of. Samples of bsp: 10 for each device of bsp-12; in a trial 4.
set_up_rehearsal() {
  pool=cluster-configs/hetpipe-paper-scaled.toml data=fashion-mnist model=resnet-8 target=0.75
  epochs=2 evaluations=20 servers=v,r,g,q options=()
  names="bsp-12 bsp hetpipe-d0 hetpipe-d4"
  bsp_minibatches="96 128" samples_each=10 devices_each=4
  distances="0 4" policies="np ed hd" placements="default local" minibatches="4 8"
  # As many for each, an order of magnitude wide.
  rates=([bsp-12]="0.01 0.03 0.1" [bsp]="0.01 0.03 0.1" [hetpipe-d0]="0.003 0.01 0.03" [hetpipe-d4]="0.003 0.01 0.03")
  [ $trial = yes ] || return 0
  data=$work/data model=lenet target=0.01 evaluations=2 servers=v
  names="bsp-12 hetpipe-d4"
  bsp_minibatches=12 samples_each=4 devices_each=1
  distances=4 policies=ed placements=default minibatches=4
  rates=([bsp-12]=0.0001 [hetpipe-d4]=0.0001)
  options=(--in-flight 2)
  make_pictures "$data" 96 28
  # Memory for messages however long they wait: the outcome of a trial must not depend on times.
  sed -e 's/^devices = \["\([^"]*\)".*/devices = ["\1"]/; s/^memory = .*/memory = 1_000_000_000/; s/slowdown = [0-9.]*/slowdown = 2.0/' \
    "$pool" > "$work/pool.toml"
  pool=$work/pool.toml
}

# devices NODE...: all of them, as a plan names them.
devices() {
  local node i
  for node; do
    for ((i = 0; i < devices_each; i++)); do echo "\"$node:$i\""; done
  done | paste -sd , | sed 's/,/, /g'
}

run_rehearsal() {
  build_targets hetpipe
  local pool data model target epochs evaluations servers options names bsp_minibatches samples_each devices_each distances policies
  local placements minibatches name rate samples distance policy placement minibatch
  local -A rates
  set_up_rehearsal
  [ -f "$work/profile.toml" ] || "$build/bin/hetpipe" profile --fresh --model "$model" --data "$data" --threads 1 --minibatch 4,8,16 \
    --output "$work/profile.toml" > "$work/profile.log" 2>&1
  local from=(--cluster "$pool" --profile "$work/profile.toml")
  rm -rf "$work/plans" "$work/candidates"
  mkdir -p "$work/plans" "$work/tries" "$work/candidates"
  # Of each system the plan that the simulator finds fastest.
  sed '/^plan_share/d' "$pool" > "$work/full.toml" # data parallelism has no messages that wait for links
  local planned_from=(--cluster "$work/full.toml" --profile "$work/profile.toml")
  for minibatch in $bsp_minibatches; do candidate bsp "bsp-$minibatch" --system data-parallel --minibatch $minibatch; done
  planned_from=("${from[@]}")
  for distance in $distances; do
    for policy in $policies; do
      for placement in $placements; do
        for minibatch in $minibatches; do
          candidate hetpipe-d$distance "$policy-$placement-minibatch-$minibatch-d$distance" --system hetpipe --policy $policy --placement $placement \
            --minibatch $minibatch --servers $servers --scale mean --clock-distance $distance "${options[@]}"
        done
      done
    done
  done
  # On all devices that can hold the model, and on all: the first must run, the second must not.
  sed -e "s/^devices = .*/devices = [$(devices v r q)]/; s/^minibatch = .*/minibatch = $((3 * devices_each * samples_each))/" \
    -e '/^shares = /d; /^predicted = /d; /^\[predicted\]/,$d' "$work/candidates/bsp-${bsp_minibatches%% *}.toml" > "$work/plans/bsp-12.toml"
  sed -e "s/^devices = .*/devices = [$(devices v r q g)]/; s/^minibatch = .*/minibatch = $((4 * devices_each * samples_each))/" \
    "$work/plans/bsp-12.toml" > "$work/bsp-16.toml"
  echo "ResNet-8 on Fashion-MNIST to $target test accuracy, sgd-momentum 0.9. bsp-12: data parallelism as in the paper, on the twelve"
  echo "devices that can hold 10 samples' training, 10 each. bsp: on the devices and with the shares of 96 or 128 samples that are"
  echo "predicted to be fastest. HetPipe: for each D, the fastest combination of allocation (np, ed, hd), placement (default, local)"
  echo "and minibatch (4, 8), as predicted; the mean of the updates of virtual workers where the paper takes their sum."
  echo "All sixteen: $("$build/bin/hetpipe" simulate "${from[@]}" --plan "$work/bsp-16.toml" 2>&1 | awk '/too much/ && !n++ {$1 = $1; print "`" $0 "`"}')."
  echo
  echo "Predicted by the simulator for the candidates, samples/s (-: does not fit): $(cat "$work/candidates/list")."
  echo
  echo "Predicted by \`hetpipe simulate\` for the race before anything was run:"
  echo
  echo "| plan | samples/s | devices |"
  echo "|---|---|---|"
  for name in $names; do
    "$build/bin/hetpipe" simulate "${from[@]}" --plan "$work/plans/$name.toml" --json | awk -F '[:,]' '/"throughput"/ && !n++ {print $2}' > "$work/$name.predicted"
    printf '| %s | %.1f | %d |\n' "$name" "$(cat "$work/$name.predicted")" "$(grep -o '"[a-z]*:[0-9]*"' "$work/plans/$name.toml" | sort -u | wc -l)"
  done

  sed -e 's/slowdown = [0-9.]*/slowdown = 1.0/; /^emulate = true/d; s/^bandwidth = .*/bandwidth = 100e9/' "$pool" > "$work/unslowed.toml"
  local tries=() given=()
  for name in $names; do
    for rate in ${rates[$name]}; do
      sed -e '/^predicted = /d; /^\[predicted\]/,$d' "$work/plans/$name.toml" > "$work/tries/$name@$rate.toml"
      tries+=("$work/tries/$name@$rate.toml") given+=(--learning-rate "$name@$rate=$rate")
    done
  done
  "$build/bin/hetpipe" compare --cluster "$work/unslowed.toml" --profile "$work/profile.toml" --data "$data" \
    --plans "$(IFS=,; echo "${tries[*]}")" "${given[@]}" --seeds 1 --epochs 1 --target-accuracy $target --evaluations $evaluations \
    --output "$work/tuning" -- --trace off > "$work/tuning.log" 2>&1 || [ $? = 4 ] || { tail -n 20 "$work/tuning.log" >&2; die "tuning failed"; } # 4: a rate is too high
  echo
  echo "Samples until the target by learning rate, seed 1 (-: not in an epoch); the race uses the best of each:"
  echo
  echo "| plan | samples, by rate | chosen | predicted, s |"
  echo "|---|---|---|---|"
  local best row taken=()
  for name in $names; do
    row="" best=""
    for rate in ${rates[$name]}; do
      samples=$(awk -F '[:,]' '/"reached": true/ {inside = 1} inside && /"samples"/ {print $2 + 0; exit}' "$work/tuning/runs/$name@$rate-seed-1/result.json" 2> /dev/null || true)
      row+="${row:+, }$rate: ${samples:--}"
      if [ -n "$samples" ] && { [ -z "$best" ] || [ "$samples" -lt "${best% *}" ]; }; then best="$samples $rate"; fi
    done
    [ -n "$best" ] || die "no rate takes $name to $target"
    taken+=(--learning-rate "$name=${best#* }")
    echo "| $name | $row | ${best#* } | $(awk -v s="${best% *}" -v f="$(cat "$work/$name.predicted")" 'BEGIN {printf "%.1f", s / f}') |"
  done

  # One after another, all plans with a seed before the next seed.
  local seeds
  seeds=$(sized "${SEEDS:-1,2,3}" 1)
  "$build/bin/hetpipe" compare "${from[@]}" --data "$data" --plans "$(for name in $names; do echo "$work/plans/$name.toml"; done | paste -sd ,)" \
    "${taken[@]}" --seeds "$seeds" --epochs $epochs --target-accuracy $target --evaluations $evaluations --output "$work/race" -- --trace off \
    > "$work/race.log" 2>&1 || { tail -n 20 "$work/race.log" >&2; die "the race failed"; }
  echo
  echo "The race, seeds $seeds; the time of evaluations (20 in an epoch) is not counted:"
  echo
  sed -n '/^|/p' "$work/race/compare.md"
  echo
  grep -h -E '^emulation' "$work"/race/runs/*.log | awk '{a += $2; b += $4} END {printf "Actions that this machine was too slow for: %d of %d.\n", a, b}'
}
