# SPDX-License-Identifier: Apache-2.0
# The table rehearsal, sourced by benchmarks/run: the headline of HetPipe's paper, in simulated time (docs/simulated-time.md): a
# small network learns, by the clock of VGG-19 and of ResNet-152 on the paper's testbed. Every plan has the same network, minibatch
# of 32 for each device or virtual worker, and as many learning rates. SEEDS: of the race; MODEL, EPOCHS, TARGET, CLOCKS: other ones. A trial
# has fewer of all.

# like PLAN MODEL LAYERS: a plan of the same structure for the model, its layers dealt out evenly.
like() {
  awk -v model="$2" -v n="$3" '
    NR == FNR { if (/^\[\[virtual_worker\]\]/) ++w; if (/^\[\[virtual_worker.stage\]\]/) ++stages[w]; next }
    /^\[predicted\]/ { exit }
    /^predicted = / { next }
    /^model = / { print "model = \"" model "\""; next }
    /^\[\[virtual_worker\]\]/ { ++v; k = 0 }
    /^layers = / { printf "layers = [%d, %d]\n", int(k * n / stages[v]), int((k + 1) * n / stages[v]); ++k; next }
    { print }' "$1" "$1"
}

# candidate CLOCK NAME OPTION...: plans with the options; it becomes CLOCK's NAME if it is predicted to be faster.
candidate() {
  local clock=$1 name=$2 made=$work/candidate.toml predicted best
  shift 2
  rm -f "$made"
  "$build/bin/hetpipe" plan --cluster "$pool" --profile "$profiles/$clock.toml" "$@" --output "$made" > "$work/candidate.log" 2>&1 || return 0
  predicted=$(awk '/^throughput = / {printf "%.1f", $3}' "$made")
  best=$(cat "$work/clocks/$clock-$name.predicted" 2> /dev/null || echo 0)
  echo "| $clock | $name | $* | $predicted |" >> "$work/candidates.md"
  if awk -v a="$predicted" -v b="$best" 'BEGIN {exit !(a > b)}'; then
    cp "$made" "$work/clocks/$clock-$name.toml"
    echo "$predicted" > "$work/clocks/$clock-$name.predicted"
  fi
}

# race OUTPUT EPOCHS SEEDS PLAN@RATE...: trains the small network by each plan's clock.
race() {
  local output=$1 epochs=$2 seeds=$3 one name rate plans=() given=()
  shift 3
  for one; do
    name=${one%@*} rate=${one#*@}
    cp "$work/small/$name.toml" "$work/small/$one.toml"
    plans+=("$work/small/$one.toml")
    given+=(--learning-rate "$one=$rate" --of "$one:time-of=$work/clocks/$name.toml" --of "$one:time-profile=$profiles/${name%%-*}.toml")
  done
  "$build/bin/hetpipe" compare --cluster "$pool" --profile "$work/profile.toml" --data "$data" --plans "$(IFS=,; echo "${plans[*]}")" \
    "${given[@]}" --seeds "$seeds" --epochs "$epochs" --target-accuracy "$target" --evaluations $evaluations --clock simulated \
    --output "$output" -- --transport threads --trace off > "$output.log" 2>&1 || [ $? = 4 ] || { tail -n 20 "$output.log" >&2; die "training failed"; } # 4: a rate is too high
}

run_rehearsal() {
  build_targets hetpipe
  local pool=cluster-configs/hetpipe-paper.toml profiles=cluster-configs/profiles data=fashion-mnist model=${MODEL:-lenet} epochs=${EPOCHS:-5}
  local target=${TARGET:-0.88} evaluations=10 clocks=${CLOCKS:-vgg19 resnet152} distances="0 4 32" policies="ed hd" placements="default local"
  local -A rates=([bsp]="0.01 0.03 0.1 0.3" [hetpipe]="0.0003 0.001 0.003 0.01")
  local seeds clock distance policy placement name names=() tries rate best row samples layers
  seeds=$(sized "${SEEDS:-1,2,3}" 1)
  if [ $trial = yes ]; then
    data=$work/data target=0.01 evaluations=1 epochs=1 clocks=vgg19 distances=4 policies=ed placements=local
    rates=([bsp]=0.001 [hetpipe]=0.0001)
    make_pictures "$data" 1024 28
  fi
  rm -rf "$work/clocks" "$work/small" "$work/candidates.md"
  mkdir -p "$work/clocks" "$work/small"
  "$build/bin/hetpipe" profile --estimate --model "$model" --data "$data" --output "$work/profile.toml" > "$work/profile.log" 2>&1
  layers=$(grep -c '^\[\[layer\]\]' "$work/profile.toml")
  for clock in $clocks; do
    candidate "$clock" bsp --system data-parallel --shares equal
    for distance in $distances; do
      for policy in $policies; do
        for placement in $placements; do
          candidate "$clock" "d$distance" --system hetpipe --policy "$policy" --placement "$placement" --minibatch 32 --clock-distance "$distance"
        done
      done
      names+=("$clock-d$distance")
    done
    names+=("$clock-bsp")
  done
  for name in "${names[@]}"; do like "$work/clocks/$name.toml" "$model" "$layers" > "$work/small/$name.toml"; done
  echo "$model on Fashion-MNIST to $target test accuracy by the clock of each plan on the paper's testbed, sgd-momentum 0.9, constant rates."
  echo "bsp: all devices that hold 32 samples' training, 32 each, as in Horovod. d0, d4, d32: HetPipe with that D and virtual workers'"
  echo "minibatches of 32; of the allocations ($policies) and placements ($placements) the one that is predicted to be fastest."
  echo
  echo "| clock | plan | planned with | samples/s |"
  echo "|---|---|---|---|"
  cat "$work/candidates.md"
  echo
  for name in "${names[@]}"; do
    for rate in ${rates[$([ "${name#*-}" = bsp ] && echo bsp || echo hetpipe)]}; do tries+=("$name@$rate"); done
  done
  race "$work/tuning" "$epochs" 1 "${tries[@]}"
  echo "Samples until the target by learning rate, seed 1 (-: not in $epochs epochs); the race uses the best of each:"
  echo
  echo "| plan | samples, by rate | chosen |"
  echo "|---|---|---|"
  local taken=()
  for name in "${names[@]}"; do
    row="" best=""
    for rate in ${rates[$([ "${name#*-}" = bsp ] && echo bsp || echo hetpipe)]}; do
      samples=$(reached "$work/tuning/runs/$name@$rate-seed-1" samples)
      row+="${row:+, }$rate: ${samples:--}"
      if [ -n "$samples" ] && { [ -z "$best" ] || [ "$samples" -lt "${best% *}" ]; }; then best="$samples $rate"; fi
    done
    echo "| $name | $row | ${best#* } |"
    [ -z "$best" ] || taken+=("$name@${best#* }")
  done
  race "$work/race" "$epochs" "$seeds" "${taken[@]}"
  echo
  echo "The race, seeds $seeds, in simulated time; ratio: of the time of that clock's bsp. It is the product of the other two:"
  echo "samples until the target, and seconds for each sample, both as shares of those of bsp."
  echo
  echo "| plan | seconds to target, by seed | mean | samples to target, mean | ratio | of samples | of seconds per sample |"
  echo "|---|---|---|---|---|---|---|"
  for clock in $clocks; do
    for name in "${taken[@]}"; do
      [ "${name%%-*}" = "$clock" ] || continue
      for seed in ${seeds//,/ }; do
        echo "$name $(reached "$work/race/runs/$name-seed-$seed" seconds) $(reached "$work/race/runs/$name-seed-$seed" samples)"
      done
    done | awk -v clock="$clock" '
      NF == 3 { if (!($1 in runs)) order[++n] = $1; ++runs[$1]; list[$1] = list[$1] (list[$1] == "" ? "" : ", ") sprintf("%.0f", $2); t[$1] += $2; s[$1] += $3 }
      $1 ~ /-bsp@/ { bsp = $1 }
      END {
        for (i = 1; i <= n; ++i) {
          name = order[i]; time = t[name] / runs[name]; samples = s[name] / runs[name]
          printf "| %s | %s | %.0f | %.0f |", name, list[name], time, samples
          if (bsp in runs) {
            bt = t[bsp] / runs[bsp]; bs = s[bsp] / runs[bsp]
            printf " %.2f | %.2f | %.2f |\n", time / bt, samples / bs, (time / samples) / (bt / bs)
          } else print " - | - | - |"
        }
      }'
  done
}
